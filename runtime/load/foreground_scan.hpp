// SPDX-License-Identifier: Apache-2.0
// Where the foreground of each sample is, found by reading all labels once.
#pragma once

#include <functional>
#include <vector>

#include "partition/samples/crops.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// The foreground of every sample, the same on every rank. Ranks read the labels of an equal share
/// of the samples each, slab by slab, and tell one another what they found: up to
/// ForegroundSearch::kKept voxels of 6 bytes for each class and sample. Empty if `must_stop` was
/// true on some rank. Collective over `world`; throws the same Error on every rank.
std::vector<Foreground> scan_foreground(const Comm& world, const Dataset& data,
                                        const std::function<bool()>& must_stop);

}  // namespace halomesh
