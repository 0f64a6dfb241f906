// SPDX-License-Identifier: Apache-2.0
// Where the foreground of each sample is, found by looking at all labels once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "partition/samples/crops.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// Searches of samples, or of boxes of them, by the numbers of the samples.
using ForegroundSearches = std::map<std::int64_t, ForegroundSearch>;

/// What all ranks have found together, on each of them: up to ForegroundSearch::kKept voxels of 6
/// bytes for each class and sample. Collective.
ForegroundSearches joined_over(const Comm& comm, const ForegroundSearches& mine);

/// The foreground of samples 0 .. samples-1, all of which have been searched.
std::vector<Foreground> foreground_of(const ForegroundSearches& searches, std::int64_t samples);

/// The foreground of every sample, the same on every rank. Ranks read the labels of an equal share
/// of the samples each, slab by slab, and tell one another what they found. Empty if `must_stop`
/// was true on some rank. Collective over `world`; throws the same Error on every rank.
std::vector<Foreground> scan_foreground(const Comm& world, const Dataset& data,
                                        const std::function<bool()>& must_stop);

}  // namespace halomesh
