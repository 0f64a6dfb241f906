// SPDX-License-Identifier: Apache-2.0
// Simple answers that a network of classes of voxels must beat.
#pragma once

#include <string>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/mpi/mpi.hpp"
#include "score.hpp"

namespace halomesh {

/// A simple answer and its quality on a split.
struct ClassBaseline {
  std::string name;
  std::vector<ClassQuality> classes;
};

/// On `split`, "background" calls every voxel class 0; "threshold", only where `training` is not
/// null, gives to each class the interval of the values of one channel that fits it best in the
/// training samples (ValueIntervals). Quality as SegmentationLoss has it: ratios of whole samples,
/// averaged. Each rank reads its share of the samples whole; of the training samples twice. Throws
/// Error on a stop signal or where a sample cannot be read. Collective over `world`.
std::vector<ClassBaseline> class_baselines(const Comm& world, const Dataset* training,
                                           const Dataset& split);

}  // namespace halomesh
