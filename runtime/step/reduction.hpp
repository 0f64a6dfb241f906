// SPDX-License-Identifier: Apache-2.0
// How gradients are summed over the ranks that hold them: the algorithms to select from, and the
// choice among them by cost.
#pragma once

#include <cstdint>
#include <string>

#include "partition/cost/network_cost.hpp"

namespace halomesh {

/// kFlat is one MPI_Iallreduce, in place, by the MPI library's algorithm. All others are the
/// program's own sums by messages between pairs of ranks; kAuto chooses the cheapest for each
/// bucket. See SumAlgorithm.
enum class Reduction : std::uint8_t {
  kAuto,
  kFlat,
  kTwoLevel,
  kHalving,
  kDoubling,
  kRing,
  kBinomial
};

constexpr const char* name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::kAuto:
      return "auto";
    case Reduction::kFlat:
      return "flat";
    case Reduction::kTwoLevel:
      return "two-level";
    case Reduction::kHalving:
      return "halving";
    case Reduction::kDoubling:
      return "doubling";
    case Reduction::kRing:
      return "ring";
    case Reduction::kBinomial:
      break;
  }
  return "binomial";
}

/// The reduction that name_of() calls by this name; "mpi" also means kFlat. Throws UsageError for
/// unknown names.
Reduction reduction_named(const std::string& name);

/// Chooses a sum; `reduction` is not kFlat. Two-level sums take the ranks of a node as the inner
/// level or, if those form no level, the `per_replica` ranks of each replica; failing that, kAuto
/// decides. sum_parts() gives the number of parts.
SumChoice choose_sum(Reduction reduction, const SumPlace& place, int per_replica, double bytes,
                     const NetworkCost& network);

/// The network constants with which runs choose their sums if nothing was measured. Within a node:
/// shared memory of a 2-core AMD EPYC (Zen 4). Between nodes: 3.2 us a round and 5.9 GB/s, which
/// large sums reach on 64 nodes of Fugaku (measurements of D. De Sensi et al., "Bine trees", SC'25,
/// github.com/HLC-Lab/pico); all ranks of a node share 5.9 GB/s as well.
NetworkCost default_network(int ranks_per_node);

}  // namespace halomesh
