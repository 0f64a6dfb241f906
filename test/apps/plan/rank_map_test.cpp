// SPDX-License-Identifier: Apache-2.0
// Rank maps: literal small ones, and what must hold of every one.
#include "src/apps/plan/rank_map.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "error.hpp"

namespace halomesh {
namespace {

MeshShape mesh_of(std::int64_t replicas, const PartGrid& parts) { return {replicas, parts}; }

/// The order of an unmapped job: nodes along the last axis first.
std::vector<NodeShape> in_order(const NodeShape& shape, std::int64_t ranks_per_node) {
  std::vector<NodeShape> nodes;
  for (std::int64_t n = 0; n < node_count(shape); ++n) {
    NodeShape at(shape.size());
    std::int64_t rest = n;
    for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis])
      at[axis] = rest % shape[axis];
    nodes.insert(nodes.end(), static_cast<std::size_t>(ranks_per_node), at);
  }
  return nodes;
}

std::string refusal(const std::vector<std::int64_t>& numbers, const NodeShape& shape,
                    const PartGrid& parts) {
  try {
    make_rank_map(mesh_of(numbers[0], parts), shape, numbers[1]);
  } catch (const UsageError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("shapes of nodes are read, counted and written") {
  CHECK(parse_node_shape("512") == NodeShape{512});
  CHECK(parse_node_shape("4x6x16") == NodeShape{4, 6, 16});
  CHECK(node_count({4, 6, 16}) == 384);
  CHECK(to_string(NodeShape{4, 6, 16}) == "4x6x16");
  for (const char* bad : {"", "x", "4x", "4x0x2", "4x4x4x4", "-1", "4 x 4", "99999999999999999999"})
    CHECK_THROWS_AS(parse_node_shape(bad), UsageError);
}

TEST_CASE("a shape fits a machine along any axes") {
  CHECK(fits_into({48, 48, 69}, {48, 69, 48}));
  CHECK(fits_into({69}, {48, 69, 48}));
  CHECK(!fits_into({70}, {48, 69, 48}));
  CHECK(!fits_into({49, 49, 1}, {48, 69, 48}));
  CHECK(!fits_into({2, 2, 2}, {8, 8}));
  CHECK(fits_into({1000, 1000}, {}));
}

TEST_CASE("the chosen shape is the most cube-like that fits") {
  CHECK(node_count(choose_node_shape(512, {})) == 512);
  CHECK(choose_node_shape(512, {}) == NodeShape{8, 8, 8});
  CHECK(choose_node_shape(7, {}) == NodeShape{1, 1, 7});
  CHECK(choose_node_shape(64, {2, 64, 64}) == NodeShape{2, 4, 8});
  CHECK_THROWS_WITH_AS(choose_node_shape(71, {48, 69, 48}),
                       "71 nodes have no shape that fits into the machine's 48x69x48", UsageError);
}

TEST_CASE("a map of one group is a walk whose steps are single hops") {
  // 8 parts in a row on 2x2x2 nodes: a snake has 7 hops for 7 faces.
  const RankMap map = make_rank_map(mesh_of(1, {8, 1, 1}), {2, 2, 2}, 1);
  CHECK(map.block == NodeShape{2, 2, 2});
  CHECK(map.mean_hops == doctest::Approx(1.0));
  CHECK(to_host_file(map) ==
        "(0,0,0)\n(0,0,1)\n(0,1,1)\n(0,1,0)\n(1,1,0)\n(1,1,1)\n(1,0,1)\n(1,0,0)\n");
}

TEST_CASE("every map fills each node, keeps groups on blocks and beats the unmapped order") {
  struct Row {
    NodeShape shape;
    std::int64_t ranks_per_node;
    PartGrid parts;
  };
  const std::vector<Row> rows = {
      {{8, 8, 8}, 4, {4, 4, 1}},  {{8, 8, 8}, 1, {4, 4, 1}},  {{32, 8, 32}, 1, {4, 4, 1}},
      {{4, 4, 32}, 1, {4, 1, 1}}, {{4, 6, 16}, 4, {4, 4, 1}}, {{4, 4, 4}, 4, {4, 4, 4}},
      {{12, 12}, 1, {2, 2, 1}},   {{96}, 2, {2, 2, 2}},       {{2, 3, 2}, 4, {2, 1, 1}},
      {{6, 6, 6}, 1, {3, 3, 3}},  {{4, 4, 4}, 2, {1, 1, 1}},  {{3, 5, 7}, 1, {5, 1, 1}},
  };
  int compared = 0;
  for (const Row& row : rows) {
    CAPTURE(to_string(row.shape));
    CAPTURE(to_string(row.parts));
    const std::int64_t ranks = node_count(row.shape) * row.ranks_per_node;
    const MeshShape mesh = mesh_of(ranks / row.parts.count(), row.parts);
    const RankMap map = make_rank_map(mesh, row.shape, row.ranks_per_node);
    REQUIRE(static_cast<std::int64_t>(map.nodes.size()) == ranks);
    std::map<NodeShape, std::int64_t> used;
    for (std::int64_t r = 0; r < ranks; ++r) {
      const NodeShape& node = map.nodes[static_cast<std::size_t>(r)];
      ++used[node];
      // A group's first node is in the same block as each of its nodes.
      const auto first = static_cast<std::size_t>(mesh.rank_of(mesh.replica_of(r), 0));
      for (std::size_t axis = 0; axis < row.shape.size(); ++axis) {
        CHECK(node[axis] >= 0);
        CHECK(node[axis] < row.shape[axis]);
        CHECK(node[axis] / map.block[axis] == map.nodes[first][axis] / map.block[axis]);
        ++compared;
      }
    }
    CHECK(static_cast<std::int64_t>(used.size()) == node_count(row.shape));
    for (const auto& [node, count] : used) CHECK(count == row.ranks_per_node);
    CHECK(map.mean_hops <=
          mean_face_hops(mesh, row.shape, in_order(row.shape, row.ranks_per_node)) + 1e-12);
  }
  CHECK(compared > 0);
}

TEST_CASE("hops are counted around the ring") {
  // Three parts on a ring of 3: part 0 and 1, 1 and 2; all neighbours of each other.
  CHECK(mean_face_hops(mesh_of(1, {3, 1, 1}), {3}, {{0}, {2}, {1}}) == doctest::Approx(1.0));
  CHECK(mean_face_hops(mesh_of(1, {3, 1, 1}), {8}, {{0}, {7}, {3}}) == doctest::Approx(2.5));
  CHECK(mean_face_hops(mesh_of(3, {1, 1, 1}), {3}, {{0}, {2}, {1}}) == 0);
}

TEST_CASE("impossible maps are refused with a valid alternative") {
  CHECK(refusal({1, 1}, {3, 3}, {2, 2, 1}) ==
        "4 ranks do not fill 3x3 nodes with 1 rank each | use a shape of 4 nodes");
  CHECK(
      refusal({2, 4}, {3}, {6, 1, 1}) ==
      "groups of 6 parts do not fill nodes of 4 ranks: some would share a node with part of "
      "another | use a number of parts that divides the ranks per node, or is a multiple of them");
}

}  // namespace halomesh
