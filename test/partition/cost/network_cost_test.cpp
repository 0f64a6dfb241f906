// SPDX-License-Identifier: Apache-2.0
// Costs of sums over ranks against hand-evaluated formulas, and which sum is fastest where.
#include "partition/cost/network_cost.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace halomesh {
namespace {

// Microseconds: latency 3 and 10, 0.001 and 0.004 a byte, 0.002 a byte added.
NetworkCost small_machine() {
  NetworkCost network;
  network.within_node = {3, 0.001};
  network.between_nodes = {10, 0.004};
  network.add_s_per_byte = 0.002;
  return network;
}

struct SumRow {
  SumAlgorithm algorithm;
  SumPlace place;
  double seconds;  // of 1200 bytes: 1.2 within, 4.8 between nodes, 2.4 to add
};

TEST_CASE("a message costs its latency and its bytes") {
  CHECK(small_machine().between_nodes.seconds(1000) == doctest::Approx(14));
}

TEST_CASE("sums cost what the published formulas say") {
  using enum SumAlgorithm;
  const std::vector<SumRow> rows = {
      {kRecursiveDoubling, {1, 1}, 0},
      {kRecursiveDoubling, {8, 1}, 3 * (10 + 4.8 + 2.4)},
      {kRecursiveDoubling, {8, 8}, 3 * (3 + 1.2 + 2.4)},
      {kRecursiveDoubling, {8, 4}, 2 * (3 + 1.2 + 2.4) + (10 + 4.8 + 2.4)},
      {kRecursiveDoubling, {6, 6}, 2 * (3 + 1.2 + 2.4) + 2 * (3 + 1.2) + 2.4},
      {kRecursiveDoubling, {3, 1}, (10 + 4.8 + 2.4) + 2 * (10 + 4.8) + 2.4},
      {kHalvingDoubling, {8, 1}, 6 * 10 + 0.875 * (2 * 4.8 + 2.4)},
      {kHalvingDoubling, {6, 6}, 6 * 3 + 5.0 / 6 * (2 * 1.2 + 2.4)},
      {kHalvingDoubling,
       {8, 4},
       4 * 3 + 0.75 * (2 * 1.2 + 2.4) + 2 * 10 + 0.5 / 4 * (2 * 4.8 + 2.4)},
      {kHalvingDoubling, {6, 3}, 6 * 10 + 5.0 / 6 * (2 * 4.8 + 2.4)},
      {kRing, {8, 1}, 14 * 10 + 0.875 * (2 * 4.8 + 2.4)},
      {kRing, {4, 4}, 6 * 3 + 0.75 * (2 * 1.2 + 2.4)},
      {kTwoLevel, {6, 3}, 4 * 3 + 2.0 / 3 * (2 * 1.2 + 2.4) + 10 + (4.8 + 2.4) / 3},
      {kBinomialTree, {8, 1}, 6 * (10 + 4.8) + 3 * 2.4},
      {kBinomialTree, {5, 5}, 6 * (3 + 1.2) + 3 * 2.4},
  };
  for (const SumRow& row : rows) {
    CAPTURE(name_of(row.algorithm));
    CAPTURE(row.place.ranks);
    CAPTURE(row.place.per_node);
    CHECK(sum_seconds(row.algorithm, row.place, 1200, small_machine()) ==
          doctest::Approx(row.seconds));
  }
}

TEST_CASE("ranks of a node share its injection") {
  NetworkCost network = small_machine();
  network.injection_s_per_byte = 0.003;
  CHECK(network.between_nodes_shared(1).s_per_byte == 0.004);
  CHECK(network.between_nodes_shared(4).s_per_byte == doctest::Approx(0.012));
  const SumPlace place{8, 4};
  CHECK(sum_seconds(SumAlgorithm::kRecursiveDoubling, place, 1000, network) -
            sum_seconds(SumAlgorithm::kRecursiveDoubling, place, 1000, small_machine()) ==
        doctest::Approx(1000 * (0.012 - 0.004)));
  CHECK(sum_seconds(SumAlgorithm::kRing, place, 1000, network) ==
        doctest::Approx(sum_seconds(SumAlgorithm::kRing, place, 1000, small_machine())));
}

TEST_CASE("each round waits for a poll") {
  NetworkCost network = small_machine();
  network.poll_s = 100;
  const SumPlace place{16, 1};
  CHECK(sum_seconds(SumAlgorithm::kHalvingDoubling, place, 0, network) == doctest::Approx(8 * 110));
  CHECK(sum_seconds(SumAlgorithm::kRing, place, 0, network) == doctest::Approx(30 * 110));
}

TEST_CASE("the fastest sum depends on bytes, ranks and nodes") {
  NetworkCost network;
  network.within_node = {0.5e-6, 0.05e-9};
  network.between_nodes = {3.2e-6, 0.16e-9};
  network.injection_s_per_byte = 0.16e-9;
  network.add_s_per_byte = 0.1e-9;
  CHECK(fastest_sum({512, 1}, 1024, network) == SumAlgorithm::kRecursiveDoubling);
  CHECK(fastest_sum({512, 1}, 4 << 20, network) == SumAlgorithm::kHalvingDoubling);
  // Two ranks: the ring has as many rounds, and the first of equals is taken.
  CHECK(fastest_sum({2, 1}, 4 << 20, network) == SumAlgorithm::kHalvingDoubling);
  CHECK(fastest_sum({48, 3}, 4 << 20, network) == SumAlgorithm::kTwoLevel);
  CHECK(fastest_sum({3, 3}, 4 << 20, network) != SumAlgorithm::kTwoLevel);
  CHECK(fastest_sum({47, 3}, 4 << 20, network) != SumAlgorithm::kTwoLevel);
}

TEST_CASE("only large sums across nodes are cut into parts, at most one for each digit") {
  using enum SumAlgorithm;
  NetworkCost network;
  network.within_node = {1.5e-6, 0.15e-9};
  network.between_nodes = {3.2e-6, 0.17e-9};
  network.injection_s_per_byte = 0.17e-9;
  network.add_s_per_byte = 0.1e-9;
  const double large = 4 << 20;
  struct Row {
    SumChoice sum;
    double bytes;
    int parts;
  };
  const std::vector<Row> rows = {
      {{kHalvingDoubling, {64, 1}}, large, 3},
      {{kHalvingDoubling, {4096, 1}}, large, 3},
      {{kHalvingDoubling, {64, 1}}, 64 << 10, 1},
      {{kHalvingDoubling, {4, 1}}, large, 2},    // one round per axis
      {{kHalvingDoubling, {2, 1}}, large, 1},    // nothing to rotate
      {{kHalvingDoubling, {7, 1}}, large, 1},    // one digit
      {{kHalvingDoubling, {6, 1}}, large, 2},    // 2 and 3
      {{kHalvingDoubling, {16, 16}}, large, 1},  // one node
      {{kHalvingDoubling, {64, 4}}, large, 3},
      {{kHalvingDoubling, {48, 3}}, large, 1},  // rounds do not keep to nodes
      {{kTwoLevel, {48, 3}, kHalvingDoubling}, large, 3},
      {{kTwoLevel, {48, 3}, kRing}, large, 1},
      {{kRing, {64, 1}}, large, 1},
      {{kRecursiveDoubling, {64, 1}}, large, 1},
      {{kBinomialTree, {64, 1}}, large, 1},
  };
  for (const Row& row : rows) {
    CAPTURE(name_of(row.sum.algorithm));
    CAPTURE(row.sum.place.ranks);
    CAPTURE(row.sum.place.per_node);
    CHECK(sum_parts(row.sum, row.bytes, network) == row.parts);
  }
  // Each round then has two messages more, of which a half latency each is not hidden.
  NetworkCost slow = network;
  slow.between_nodes.latency_s = 1e-3;
  CHECK(sum_parts({kHalvingDoubling, {64, 1}}, large, slow) == 1);
}

}  // namespace
}  // namespace halomesh
