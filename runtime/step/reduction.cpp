// SPDX-License-Identifier: Apache-2.0
// Choice of sums: see reduction.hpp.
#include "runtime/step/reduction.hpp"

#include "error.hpp"

namespace halomesh {

Reduction reduction_named(const std::string& name) {
  using enum Reduction;
  for (const Reduction reduction : {kAuto, kFlat, kTwoLevel, kHalving, kDoubling, kRing, kBinomial})
    if (name == name_of(reduction)) return reduction;
  if (name == "mpi") return kFlat;
  throw UsageError(fmt::format("unknown reduction: {}", name),
                   "use auto, halving, doubling, ring, two-level, binomial, or flat (or mpi) for "
                   "MPI's own sums");
}

namespace {

SumChoice whole_sum(Reduction reduction, const SumPlace& place, int per_replica, double bytes,
                    const NetworkCost& network) {
  using enum SumAlgorithm;
  const auto several = [&](int inner) { return inner > 1 && inner < place.ranks; };
  const auto two_levels = [&](int inner) {
    const SumPlace across{place.ranks / inner, 1};
    return SumChoice{kTwoLevel, {place.ranks, inner}, fastest_sum(across, bytes / inner, network)};
  };
  switch (reduction) {
    case Reduction::kHalving:
      return {kHalvingDoubling, place};
    case Reduction::kDoubling:
      return {kRecursiveDoubling, place};
    case Reduction::kRing:
      return {kRing, place};
    case Reduction::kBinomial:
      return {kBinomialTree, place};
    case Reduction::kTwoLevel:
      if (several(place.per_node)) return two_levels(place.per_node);
      if (several(per_replica)) return two_levels(per_replica);
      break;
    default:
      break;
  }
  const SumAlgorithm best = fastest_sum(place, bytes, network);
  return best == kTwoLevel ? two_levels(place.per_node) : SumChoice{best, place};
}

}  // namespace

SumChoice choose_sum(Reduction reduction, const SumPlace& place, int per_replica, double bytes,
                     const NetworkCost& network) {
  SumChoice sum = whole_sum(reduction, place, per_replica, bytes, network);
  sum.parts = sum_parts(sum, bytes, network);
  return sum;
}

NetworkCost default_network(int ranks_per_node) {
  NetworkCost network;
  network.within_node = {1.5e-6, 0.15e-9};
  network.between_nodes = {3.2e-6, 1 / 5.9e9};
  network.injection_s_per_byte = network.between_nodes.s_per_byte;
  network.add_s_per_byte = 0.1e-9;
  network.copy.s_per_byte = network.copy.core_s_per_byte = 0.1e-9;
  network.ranks_per_node = ranks_per_node;
  return network;
}

}  // namespace halomesh
