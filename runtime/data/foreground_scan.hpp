// SPDX-License-Identifier: Apache-2.0
// The positions of the foreground of each sample, found in one pass over all labels.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "partition/samples/crops.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// Searches of samples, or of boxes of them, by sample number.
using ForegroundSearches = std::map<std::int64_t, ForegroundSearch>;

/// Joins the results of all ranks on each of them: up to ForegroundSearch::kKept voxels of 6 bytes
/// for each class and sample. Collective.
ForegroundSearches joined_over(const Comm& comm, const ForegroundSearches& mine);

/// The foreground of samples 0 .. samples-1, all of which have been searched.
std::vector<Foreground> foreground_of(const ForegroundSearches& searches, std::int64_t samples);

/// The foreground of every sample, the same on every rank. Each rank reads the labels of an equal
/// share of the samples, slab by slab, and the ranks exchange their results. Empty if `must_stop`
/// was true on some rank. Collective over `world`; throws one Error on every rank.
std::vector<Foreground> scan_foreground(const Comm& world, const Dataset& data,
                                        const std::function<bool()>& must_stop);

}  // namespace halomesh
