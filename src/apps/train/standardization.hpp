// SPDX-License-Identifier: Apache-2.0
// The numbers by which --standardize scales a network's input.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/mpi/mpi.hpp"
#include "src/nn/counts.hpp"

namespace halomesh {

/// The number of training samples that standardization measures, if the split has as many.
inline constexpr std::int64_t kStandardizationSamples = 256;

/// The mean and the standard deviation of log(1+x) over the voxels of each channel, in `samples`
/// samples spread evenly over the split or in all; a constant channel has deviation 1. Each rank
/// reads its share. The sums are of whole numbers, so the result has the same bits on any number of
/// ranks. Collective over `world`. Throws Error if a sample cannot be read.
std::vector<ChannelScale> channel_scales(const Comm& world, const Dataset& dataset,
                                         std::int64_t samples);

/// The value of --standardize as the checkpoints of a run store it: off, or numbers. "on" takes the
/// numbers of the checkpoint that the run starts from, `stored`; if that is "off", it measures
/// them. Collective over `world`.
std::string resolved_standardization(const Comm& world, const std::string& wanted,
                                     const std::string& stored, const Dataset& training);

}  // namespace halomesh
