// SPDX-License-Identifier: Apache-2.0
// Simple classifiers that a network for classes of voxels must beat.
#pragma once

#include <string>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/mpi/mpi.hpp"
#include "score.hpp"

namespace halomesh {

/// A simple classifier and its quality on a split.
struct ClassBaseline {
  std::string name;
  std::vector<ClassQuality> classes;
};

/// Evaluates on `split`: "background" calls every voxel class 0; "threshold", only if `training` is
/// not null, gives each class the interval of the values of one channel that fits it best in the
/// training samples (ValueIntervals). Quality is measured as by SegmentationLoss: ratios of whole
/// samples, averaged. Each rank reads its share of the samples whole; of the training samples
/// twice. Throws Error on a stop signal or if a sample cannot be read. Collective over `world`.
std::vector<ClassBaseline> class_baselines(const Comm& world, const Dataset* training,
                                           const Dataset& split);

}  // namespace halomesh
