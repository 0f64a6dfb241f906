// SPDX-License-Identifier: Apache-2.0
// Who holds the same parameters, how many of them share a node, and which sum is chosen for them.
#include "runtime/step/reduction.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "error.hpp"
#include "runtime/step/holder_set.hpp"

namespace halomesh {
namespace {

TEST_CASE("holders are numbered replica by replica, and know who shares a node") {
  const HolderSet some({3, {2, 2, 1}}, 4, {1, 3});
  CHECK(some.size() == 6);
  CHECK(some.world_rank(0) == 1);
  CHECK(some.world_rank(3) == 7);
  CHECK(some.holder(1, 3) == 3);
  for (int holder = 0; holder < some.size(); ++holder)
    CHECK(some.holder(holder / 2, holder % 2 == 0 ? 1 : 3) == holder);
  struct Row {
    MeshShape mesh;
    int ranks_per_node;
    std::vector<std::int64_t> parts;
    int per_node;
  };
  const std::vector<Row> rows = {
      {{8, {1, 1, 1}}, 4, {0}, 4},
      {{8, {1, 1, 1}}, 1, {0}, 1},
      {{4, {2, 1, 1}}, 4, {0, 1}, 4},
      {{4, {2, 1, 1}}, 4, {1}, 2},
      {{2, {4, 2, 1}}, 4, {0, 1, 2, 3, 4, 5, 6, 7}, 4},
      {{2, {4, 2, 1}}, 4, {0, 1, 4, 5}, 2},
      {{2, {4, 2, 1}}, 4, {0, 4, 5, 6}, 1},  // one on one node, three on the next
      {{2, {4, 2, 1}}, 4, {1, 2}, 2},        // none on the second node
      {{2, {3, 1, 1}}, 2, {0, 1, 2}, 1},     // nodes cut replicas
  };
  for (const Row& row : rows) {
    CAPTURE(row.ranks_per_node);
    CAPTURE(row.parts.size());
    CHECK(HolderSet(row.mesh, row.ranks_per_node, row.parts).place.per_node == row.per_node);
  }
}

TEST_CASE("the sum that is asked for is chosen, and otherwise the cheapest") {
  using enum SumAlgorithm;
  const NetworkCost nodes_of_4 = default_network(4), one_a_node = default_network(1);
  CHECK(choose_sum(Reduction::kRing, {64, 4}, 2, 1e6, nodes_of_4).algorithm == kRing);
  CHECK(choose_sum(Reduction::kDoubling, {64, 4}, 2, 1e6, nodes_of_4).algorithm ==
        kRecursiveDoubling);
  CHECK(choose_sum(Reduction::kBinomial, {64, 4}, 2, 1e6, nodes_of_4).algorithm == kBinomialTree);
  CHECK(choose_sum(Reduction::kHalving, {64, 4}, 2, 4, nodes_of_4).algorithm == kHalvingDoubling);
  const SumChoice by_node = choose_sum(Reduction::kTwoLevel, {64, 4}, 2, 1e6, nodes_of_4);
  CHECK(by_node.algorithm == kTwoLevel);
  CHECK(by_node.place.per_node == 4);
  const SumChoice by_replica = choose_sum(Reduction::kTwoLevel, {64, 64}, 2, 1e6, nodes_of_4);
  CHECK(by_replica.algorithm == kTwoLevel);
  CHECK(by_replica.place.per_node == 2);
  CHECK(choose_sum(Reduction::kTwoLevel, {64, 1}, 1, 1e6, one_a_node).algorithm != kTwoLevel);
  CHECK(choose_sum(Reduction::kAuto, {512, 1}, 1, 1024, one_a_node).algorithm ==
        kRecursiveDoubling);
  CHECK(choose_sum(Reduction::kAuto, {512, 1}, 1, 4 << 20, one_a_node).algorithm ==
        kHalvingDoubling);
  const SumChoice threes = choose_sum(Reduction::kAuto, {510, 3}, 1, 4 << 20, default_network(3));
  CHECK(threes.algorithm == kTwoLevel);
  CHECK(threes.across == kHalvingDoubling);
  CHECK(threes.parts == 2);  // 170 nodes: digits of 2 and 85
  CHECK(choose_sum(Reduction::kHalving, {64, 1}, 1, 4 << 20, one_a_node).parts == 3);
  CHECK(choose_sum(Reduction::kHalving, {64, 1}, 1, 64 << 10, one_a_node).parts == 1);
}

TEST_CASE("every reduction has a name that is read again") {
  using enum Reduction;
  for (const Reduction reduction : {kAuto, kFlat, kTwoLevel, kHalving, kDoubling, kRing, kBinomial})
    CHECK(reduction_named(name_of(reduction)) == reduction);
  CHECK(reduction_named("mpi") == kFlat);
  CHECK_THROWS_AS(reduction_named("tree"), UsageError);
}

TEST_CASE("HolderSet: sums on a torus take its ways, nodes apart") {
  // 16 replicas of 4 parts, 4 ranks on each node: a torus of 4 x 2 x 2 nodes, x first.
  const HolderSet one({16, {2, 2, 1}}, 4, {1});
  const SumChoice sum = one.choose(Reduction::kHalving, 1e6, parse_torus("4x2x2", "test"));
  REQUIRE(sum.ways.size() == 4);
  const int axes[] = {0, 0, 1, 2}, hops[] = {1, 2, 1, 1};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(sum.ways[i].axis == axes[i]);
    CHECK(sum.ways[i].hops == hops[i]);
  }
  CHECK(sum.parts == 3);
  CHECK(one.choose(Reduction::kHalving, 1e6, {}).ways.empty());
  // A job of more nodes than the torus has: it is another torus.
  CHECK(one.choose(Reduction::kHalving, 1e6, parse_torus("2x2x2", "test")).ways.empty());
}

}  // namespace
}  // namespace halomesh
