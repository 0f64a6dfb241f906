// SPDX-License-Identifier: Apache-2.0
// How gradients are summed over the ranks that hold them: the algorithms that can be asked for, and
// the choice of one by its cost.
#pragma once

#include <cstdint>
#include <string>

#include "partition/cost/network_cost.hpp"

namespace halomesh {

/// kFlat: one MPI_Iallreduce, in place, as the MPI library does it. All others are sums of our own
/// by messages between pairs of ranks; kAuto chooses among them for each bucket by its cost. See
/// SumAlgorithm.
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

/// The reduction of this name, of name_of() or "mpi", which is "flat". Throws UsageError for
/// unknown names.
Reduction reduction_named(const std::string& name);

/// `reduction` is not kFlat. Two levels that are asked for have the ranks of a node as the inner
/// one, or where that is no level, the `per_replica` ranks of each replica; where that is none
/// either, kAuto decides. In parts as sum_parts() says.
SumChoice choose_sum(Reduction reduction, const SumPlace& place, int per_replica, double bytes,
                     const NetworkCost& network);

/// The constants by which runs choose their sums, where nothing was measured. Within a node: those
/// of shared memory on a 2-core AMD EPYC (Zen 4). Between nodes: 3.2 us a round and 5.9 GB/s,
/// which large sums reach on 64 nodes of Fugaku (measurements of D. De Sensi et al., "Bine trees",
/// SC'25, github.com/HLC-Lab/pico); all ranks of a node share 5.9 GB/s as well.
NetworkCost default_network(int ranks_per_node);

}  // namespace halomesh
