// SPDX-License-Identifier: Apache-2.0
// The costs of messages and sums over ranks: seconds from bytes, ranks and a few constants of a
// machine.
#pragma once

#include <cstdint>
#include <vector>

#include "copy_cost.hpp"

namespace halomesh {

/// The straight line through the times of messages between two ranks.
struct Link {
  double latency_s = 0, s_per_byte = 0;
  double seconds(double bytes) const { return latency_s + bytes * s_per_byte; }
};

/// The network of one machine as its ranks see it.
struct NetworkCost {
  Link within_node, between_nodes;  ///< one message between two ranks
  double add_s_per_byte = 0;        ///< adding received floats to one's own
  CopyCost copy;                    ///< packing and unpacking
  double poll_s = 0;                ///< mean time between two polls while a rank computes
  double injection_s_per_byte = 0;  ///< seconds per byte of a whole node, shared by its ranks
  int ranks_per_node = 1;

  /// The link of each of `senders` ranks of one node that send to other nodes at the same time.
  Link between_nodes_shared(int senders) const;
};

/// How P ranks sum a buffer of n bytes so that each gets the sum. Messages have latency a and
/// seconds per byte b; an addition takes g per byte; lg is the logarithm to base 2, rounded up.
enum class SumAlgorithm : std::uint8_t {
  /// lg P (a + n b + n g): whole buffers between ranks at distances 1, 2, 4, ... Unless P is a
  /// power of 2, the ranks above one first give their buffers to others: + 2 (a + n b) + n g.
  kRecursiveDoubling,
  /// 2 lg P a + (P-1)/P n (2 b + g): reduce-scatter and all-gather in lg P rounds each, for any P.
  kHalvingDoubling,
  /// 2 (P-1) a + (P-1)/P n (2 b + g): reduce-scatter and all-gather between neighbours in a ring.
  kRing,
  /// Reduce-scatter within each node, sums of the shares across nodes by the fastest of the above,
  /// all-gather within each node.
  kTwoLevel,
  /// 2 lg P (a + n b) + lg P n g: a tree to rank 0 and back, for comparison.
  kBinomialTree,
};

constexpr const char* name_of(SumAlgorithm algorithm) {
  switch (algorithm) {
    case SumAlgorithm::kRecursiveDoubling:
      return "doubling";
    case SumAlgorithm::kHalvingDoubling:
      return "halving";
    case SumAlgorithm::kRing:
      return "ring";
    case SumAlgorithm::kTwoLevel:
      return "two-level";
    case SumAlgorithm::kBinomialTree:
      break;
  }
  return "binomial";
}

/// The placement of the ranks of a sum: node by node in rank order, `per_node` on each (the last
/// may have fewer).
struct SumPlace {
  int ranks = 1, per_node = 1;
};

/// Seconds that the sum of `bytes` takes by the formulas of Thakur, Rabenseifner and Gropp
/// (International Journal of High Performance Computing Applications 19, 2005), plus a poll per
/// round. Rounds between ranks of one node use `within_node`, others `between_nodes`, at whose
/// injection all ranks of a node share. 0 for one rank.
double sum_seconds(SumAlgorithm algorithm, const SumPlace& place, double bytes,
                   const NetworkCost& network);

/// The algorithm of least sum_seconds(), the first of equal ones. Never kBinomialTree; kTwoLevel
/// only for several nodes of equally many, several ranks.
SumAlgorithm fastest_sum(const SumPlace& place, double bytes, const NetworkCost& network);

/// The ranks of a node if a sum begins and ends with rounds within nodes, all ranks if nodes do not
/// matter to it, otherwise 1.
int first_level(SumAlgorithm algorithm, const SumPlace& place);

/// The path between the partners of a round on a torus. The axes along which partners have links
/// are numbered 0, 1, 2.
struct SumWay {
  int axis = 0, hops = 0;
};

/// The chosen way to sum. For kTwoLevel, place.per_node divides place.ranks, and `across` is
/// another algorithm.
struct SumChoice {
  SumAlgorithm algorithm = SumAlgorithm::kHalvingDoubling;
  SumPlace place;                                        ///< as the algorithm sees it
  SumAlgorithm across = SumAlgorithm::kHalvingDoubling;  ///< between the nodes of kTwoLevel
  int parts = 1;  ///< parts of the buffer that are halved and doubled across nodes at the same time
  std::vector<SumWay> ways{};  ///< one per sum_digits() across nodes; empty: not known
};

/// The factors of `count` ranks whose rounds of halving are independent: 2, 2, ..., and the odd
/// rest.
std::vector<int> sum_digits(int count);

/// The number of different axes of sum.ways.
int sum_axes(const SumChoice& sum);

/// The number of parts, 1 to 3, in which halving and doubling across nodes cuts the buffer. On a
/// torus a round of one part uses the links of one axis, and its ranks share these; parts that
/// begin with different axes use more, so there are as many parts as axes in sum.ways. As the
/// network may not be a torus, the additional messages may add at most a tenth to sum_seconds().
int sum_parts(const SumChoice& sum, double bytes, const NetworkCost& network);

}  // namespace halomesh
