// SPDX-License-Identifier: Apache-2.0
// The numbers by which --standardize scales a network's input and --scale-targets its output.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/mpi/mpi.hpp"
#include "src/nn/counts.hpp"
#include "src/nn/layers/elementwise.hpp"

namespace halomesh {

/// The number of training samples that standardization measures, if the split has as many.
inline constexpr std::int64_t kStandardizationSamples = 256;

/// The mean and the standard deviation of log(1+x) over the voxels of each channel, in `samples`
/// samples spread evenly over the split or in all; a constant channel has deviation 1. Each rank
/// reads its share. The sums are of whole numbers, so the result has the same bits on any number of
/// ranks. Collective over `world`. Throws Error if a sample cannot be read.
std::vector<ChannelScale> channel_scales(const Comm& world, const Dataset& dataset,
                                         std::int64_t samples);

/// The least and the greatest value of a target.
struct TargetRange {
  float least = std::numeric_limits<float>::infinity();
  float most = -std::numeric_limits<float>::infinity();
};
/// The ranges of the targets of `samples` samples spread evenly over the split or of all. Each rank
/// reads its share. Collective over `world`.
std::vector<TargetRange> target_ranges(const Comm& world, const Dataset& dataset,
                                       std::int64_t samples);

/// The scales that map the range of each target to the middle five sixths of the range of outputs,
/// as CosmoFlow's targets of -1 to 1 lie within its outputs; where these have no bound, to -1 to 1,
/// or 0 to 1 beside a bound of 0. A constant target has deviation 1.
std::vector<ChannelScale> target_scales(const std::vector<TargetRange>& targets,
                                        const OutputRange& outputs);

}  // namespace halomesh
