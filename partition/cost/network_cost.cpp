// SPDX-License-Identifier: Apache-2.0
// The formulas of messages and sums: see network_cost.hpp.
#include "partition/cost/network_cost.hpp"

#include <algorithm>
#include <cassert>

namespace halomesh {
namespace {

int ceil_log2(int n) {
  int rounds = 0;
  for (std::int64_t reach = 1; reach < n; reach *= 2) ++rounds;
  return rounds;
}

bool is_power_of_2(int n) { return (n & (n - 1)) == 0; }

int ranks_of_a_node(const SumPlace& place) { return std::clamp(place.per_node, 1, place.ranks); }

/// The time of rounds, or other stages, of whole or partial buffers over one kind of link.
double stage_seconds(const Link& link, double rounds, double bytes, double added_bytes,
                     const NetworkCost& network) {
  return rounds * (link.latency_s + network.poll_s) + bytes * link.s_per_byte +
         added_bytes * network.add_s_per_byte;
}

double doubling_seconds(const SumPlace& place, double bytes, const NetworkCost& network) {
  const int per_node = ranks_of_a_node(place);
  const bool aligned = is_power_of_2(per_node) || per_node == place.ranks;
  const int power =
      is_power_of_2(place.ranks) ? ceil_log2(place.ranks) : ceil_log2(place.ranks) - 1;
  const int inside = aligned ? std::min(ceil_log2(per_node), power) : 0;
  const int outside = power - inside;
  const Link between = network.between_nodes_shared(per_node);
  double seconds =
      stage_seconds(network.within_node, inside, inside * bytes, inside * bytes, network) +
      stage_seconds(between, outside, outside * bytes, outside * bytes, network);
  if (!is_power_of_2(place.ranks))  // neighbours in rank order meet before and after
    seconds +=
        stage_seconds(per_node > 1 ? network.within_node : between, 2, 2 * bytes, bytes, network);
  return seconds;
}

/// Reduce-scatter and all-gather of `bytes` over `ranks` that one kind of link connects.
double halving_seconds(const Link& link, int ranks, double rounds, double bytes,
                       const NetworkCost& network) {
  const double moved = bytes * (ranks - 1) / ranks;
  return stage_seconds(link, 2 * rounds, 2 * moved, moved, network);
}

double halving_doubling_seconds(const SumPlace& place, double bytes, const NetworkCost& network) {
  const int per_node = ranks_of_a_node(place);
  if (per_node == place.ranks)
    return halving_seconds(network.within_node, place.ranks, ceil_log2(place.ranks), bytes,
                           network);
  const Link between = network.between_nodes_shared(per_node);
  // Near ranks first: the first rounds stay in nodes whose ranks are a power of 2.
  if (is_power_of_2(per_node) && place.ranks % per_node == 0)
    return halving_seconds(network.within_node, per_node, ceil_log2(per_node), bytes, network) +
           halving_seconds(between, place.ranks / per_node, ceil_log2(place.ranks / per_node),
                           bytes / per_node, network);
  return halving_seconds(between, place.ranks, ceil_log2(place.ranks), bytes, network);
}

double ring_seconds(const SumPlace& place, double bytes, const NetworkCost& network) {
  const bool one_node = ranks_of_a_node(place) == place.ranks;
  const Link link = one_node ? network.within_node : network.between_nodes_shared(1);
  return halving_seconds(link, place.ranks, place.ranks - 1, bytes, network);
}

double two_level_seconds(const SumPlace& place, double bytes, const NetworkCost& network) {
  const int per_node = ranks_of_a_node(place);
  const int nodes = (place.ranks + per_node - 1) / per_node;
  // All ranks of a node take part in sums across nodes at the same time.
  NetworkCost across = network;
  across.between_nodes = network.between_nodes_shared(per_node);
  const SumPlace one_a_node{nodes, 1};
  const double share = bytes / per_node;
  return halving_seconds(network.within_node, per_node, ceil_log2(per_node), bytes, network) +
         sum_seconds(fastest_sum(one_a_node, share, across), one_a_node, share, across);
}

double binomial_seconds(const SumPlace& place, double bytes, const NetworkCost& network) {
  const int per_node = ranks_of_a_node(place);
  const int rounds = ceil_log2(place.ranks);
  const int inside = std::min(ceil_log2(per_node), rounds);
  const int outside = rounds - inside;
  // One rank per node takes part in the rounds between nodes.
  return stage_seconds(network.within_node, 2 * inside, 2 * inside * bytes, inside * bytes,
                       network) +
         stage_seconds(network.between_nodes_shared(1), 2 * outside, 2 * outside * bytes,
                       outside * bytes, network);
}

}  // namespace

Link NetworkCost::between_nodes_shared(int senders) const {
  return {between_nodes.latency_s,
          std::max(between_nodes.s_per_byte, senders * injection_s_per_byte)};
}

double sum_seconds(SumAlgorithm algorithm, const SumPlace& place, double bytes,
                   const NetworkCost& network) {
  assert(place.ranks >= 1 && place.per_node >= 1);
  if (place.ranks == 1) return 0;
  switch (algorithm) {
    case SumAlgorithm::kRecursiveDoubling:
      return doubling_seconds(place, bytes, network);
    case SumAlgorithm::kHalvingDoubling:
      return halving_doubling_seconds(place, bytes, network);
    case SumAlgorithm::kRing:
      return ring_seconds(place, bytes, network);
    case SumAlgorithm::kTwoLevel:
      return two_level_seconds(place, bytes, network);
    case SumAlgorithm::kBinomialTree:
      break;
  }
  return binomial_seconds(place, bytes, network);
}

SumAlgorithm fastest_sum(const SumPlace& place, double bytes, const NetworkCost& network) {
  SumAlgorithm best = SumAlgorithm::kRecursiveDoubling;
  const bool several_nodes =
      place.per_node > 1 && place.per_node < place.ranks && place.ranks % place.per_node == 0;
  for (const SumAlgorithm other :
       {SumAlgorithm::kHalvingDoubling, SumAlgorithm::kRing, SumAlgorithm::kTwoLevel}) {
    if (other == SumAlgorithm::kTwoLevel && !several_nodes) continue;
    if (sum_seconds(other, place, bytes, network) < sum_seconds(best, place, bytes, network))
      best = other;
  }
  return best;
}

int first_level(SumAlgorithm algorithm, const SumPlace& place) {
  const int per_node = ranks_of_a_node(place);
  if (algorithm == SumAlgorithm::kTwoLevel) return per_node;
  if (algorithm != SumAlgorithm::kHalvingDoubling) return 1;
  return is_power_of_2(per_node) && place.ranks % per_node == 0 ? per_node : place.ranks;
}

std::vector<int> sum_digits(int count) {
  std::vector<int> digits;
  while (count > 1) {
    digits.push_back(count % 2 == 0 ? 2 : count);
    count /= digits.back();
  }
  return digits;
}

int sum_axes(const SumChoice& sum) {
  int axes = 0;
  for (const SumWay& way : sum.ways) axes = std::max(axes, way.axis + 1);
  return axes;
}

int sum_parts(const SumChoice& sum, double bytes, const NetworkCost& network) {
  const bool two_level = sum.algorithm == SumAlgorithm::kTwoLevel;
  if ((two_level ? sum.across : sum.algorithm) != SumAlgorithm::kHalvingDoubling) return 1;
  const int nodes = sum.place.ranks / first_level(sum.algorithm, sum.place);
  int useful = static_cast<int>(std::ssize(sum_digits(nodes)));
  if (!sum.ways.empty()) useful = sum_axes(sum);
  const int parts = std::clamp(useful, 1, 3);
  // Latencies of messages in flight together overlap, except the time spent at their ends.
  const double added = (parts - 1) * 2 * ceil_log2(nodes) * network.between_nodes.latency_s / 2;
  return added <= sum_seconds(sum.algorithm, sum.place, bytes, network) / 10 ? parts : 1;
}

}  // namespace halomesh
