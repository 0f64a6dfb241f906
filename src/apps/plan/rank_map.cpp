// SPDX-License-Identifier: Apache-2.0
// The node of a torus for each rank: see rank_map.hpp.
#include "src/apps/plan/rank_map.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdlib>

#include "counted.hpp"
#include "error.hpp"
#include "joined.hpp"

namespace halomesh {
namespace {

using Order = std::vector<std::size_t>;

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d <= number; ++d)
    if (number % d == 0) found.push_back(d);
  return found;
}

/// All shapes of `axes` extents whose product is `nodes`.
std::vector<NodeShape> factorizations(std::int64_t nodes, std::size_t axes) {
  if (axes == 1) return {{nodes}};
  std::vector<NodeShape> found;
  for (const std::int64_t first : divisors(nodes)) {
    for (NodeShape rest : factorizations(nodes / first, axes - 1)) {
      rest.insert(rest.begin(), first);
      found.push_back(std::move(rest));
    }
  }
  return found;
}

/// All nodes of a block. The axes of `order` go from the slowest to the fastest; in a snake every
/// row runs against the one before it, so that each step leads to a neighbour.
std::vector<NodeShape> walk(const NodeShape& block, const Order& order, bool snake) {
  std::vector<NodeShape> nodes;
  const std::int64_t count = node_count(block);
  for (std::int64_t n = 0; n < count; ++n) {
    NodeShape node(block.size());
    std::int64_t stride = count, rest = n, rows = 0;
    for (const std::size_t axis : order) {
      stride /= block[axis];
      const std::int64_t at = rest / stride;
      rest %= stride;
      node[axis] = snake && rows % 2 != 0 ? block[axis] - 1 - at : at;
      rows = rows * block[axis] + at;
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::vector<Order> all_orders(std::size_t axes) {
  Order order;
  for (std::size_t a = 0; a < axes; ++a) order.push_back(a);
  std::vector<Order> orders;
  do orders.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));
  return orders;
}

std::int64_t hops(const NodeShape& a, const NodeShape& b, const NodeShape& shape) {
  std::int64_t sum = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::int64_t along = std::abs(a[axis] - b[axis]);
    sum += std::min(along, shape[axis] - along);
  }
  return sum;
}

/// The pairs of parts of one group that share a face.
std::vector<std::array<std::int64_t, 2>> face_pairs(const PartGrid& parts) {
  std::vector<std::array<std::int64_t, 2>> pairs;
  for (std::int64_t part = 0; part < parts.count(); ++part) {
    const Spatial at = parts.coordinates(part);
    if (at[0] + 1 < parts.d) pairs.push_back({part, part + parts.h * parts.w});
    if (at[1] + 1 < parts.h) pairs.push_back({part, part + parts.w});
    if (at[2] + 1 < parts.w) pairs.push_back({part, part + 1});
  }
  return pairs;
}

struct Layout {
  NodeShape block;
  std::vector<NodeShape> nodes;  ///< the block's nodes, in the order in which they are filled
};

/// The block and order for one group with the fewest hops; on a tie, the more cube-like block.
/// `nodes_per_group` divides the nodes of `shape`, so each of its primes divides an extent and at
/// least one block fits.
Layout best_layout(const PartGrid& parts, const NodeShape& shape, std::int64_t nodes_per_group,
                   std::int64_t ranks_per_node) {
  const auto pairs = face_pairs(parts);
  Layout best;
  std::array<std::int64_t, 2> least{};
  for (const NodeShape& block : factorizations(nodes_per_group, shape.size())) {
    bool divides = true;
    std::int64_t girth = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      divides = divides && shape[axis] % block[axis] == 0;
      girth += block[axis];
    }
    if (!divides) continue;
    for (const Order& order : all_orders(shape.size())) {
      for (const bool snake : {false, true}) {
        std::vector<NodeShape> nodes = walk(block, order, snake);
        std::int64_t sum = 0;
        for (const auto& [a, b] : pairs)
          sum += hops(nodes[static_cast<std::size_t>(a / ranks_per_node)],
                      nodes[static_cast<std::size_t>(b / ranks_per_node)], shape);
        const std::array<std::int64_t, 2> cost{sum, girth};
        if (!best.nodes.empty() && cost >= least) continue;
        best = {block, std::move(nodes)};
        least = cost;
      }
    }
  }
  return best;
}

void check_fill(const MeshShape& mesh, const NodeShape& shape, std::int64_t ranks_per_node) {
  if (mesh.ranks() == node_count(shape) * ranks_per_node) return;
  throw UsageError(fmt::format("{} ranks do not fill {} nodes with {} each", mesh.ranks(),
                               to_string(shape), counted(ranks_per_node, "rank")),
                   fmt::format("use a shape of {} nodes",
                               mesh.ranks() / std::max<std::int64_t>(ranks_per_node, 1)));
}

}  // namespace

NodeShape parse_node_shape(const std::string& text) {
  NodeShape shape;
  const char *at = text.data(), *end = at + text.size();
  for (;;) {
    std::int64_t extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    const bool more = next != end && *next == 'x';
    if (error != std::errc{} || extent < 1 || (next != end && !more) || shape.size() == 3)
      throw UsageError(fmt::format("'{}' is not a shape of nodes", text),
                       "give one to three extents, e.g. 512, 16x32 or 8x8x8");
    shape.push_back(extent);
    if (!more) return shape;
    at = next + 1;
  }
}

std::string to_string(const NodeShape& shape) { return joined(shape, "x"); }

std::int64_t node_count(const NodeShape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

bool fits_into(const NodeShape& shape, const NodeShape& machine) {
  if (machine.empty()) return true;
  NodeShape need = shape, have = machine;
  std::sort(need.rbegin(), need.rend());
  std::sort(have.rbegin(), have.rend());
  for (std::size_t axis = 0; axis < need.size(); ++axis)
    if (axis >= have.size() ? need[axis] > 1 : need[axis] > have[axis]) return false;
  return true;
}

NodeShape choose_node_shape(std::int64_t nodes, const NodeShape& machine) {
  const auto find = [&](std::int64_t count) {
    NodeShape best;
    std::int64_t least = 0;
    for (const NodeShape& shape : factorizations(count, 3)) {
      const std::int64_t girth = shape[0] + shape[1] + shape[2];
      if (!fits_into(shape, machine) || (!best.empty() && girth >= least)) continue;
      best = shape;
      least = girth;
    }
    return best;
  };
  if (NodeShape shape = find(nodes); !shape.empty()) return shape;
  std::int64_t below = nodes - 1, above = nodes + 1;
  while (find(below).empty()) --below;  // ends because one node always has a shape
  while (above <= node_count(machine) && find(above).empty()) ++above;
  throw UsageError(fmt::format("{} nodes have no shape that fits into the machine's {}", nodes,
                               to_string(machine)),
                   fmt::format("ask for {}{} nodes", below,
                               above <= node_count(machine) ? fmt::format(" or {}", above) : ""));
}

RankMap make_rank_map(const MeshShape& mesh, const NodeShape& shape, std::int64_t ranks_per_node) {
  check_fill(mesh, shape, ranks_per_node);
  const std::int64_t parts = mesh.parts.count();
  const bool whole_nodes = parts % ranks_per_node == 0;
  if (!whole_nodes && ranks_per_node % parts != 0)
    throw UsageError(
        fmt::format("groups of {} parts do not fill nodes of {} ranks: some would share a node "
                    "with part of another",
                    parts, ranks_per_node),
        "use a number of parts that divides the ranks per node, or is a multiple of them");
  const Layout layout =
      best_layout(mesh.parts, shape, whole_nodes ? parts / ranks_per_node : 1, ranks_per_node);
  NodeShape blocks = shape;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) blocks[axis] /= layout.block[axis];
  RankMap map;
  map.block = layout.block;
  for (const NodeShape& origin : walk(blocks, all_orders(shape.size()).front(), true)) {
    for (const NodeShape& inside : layout.nodes) {
      NodeShape node = inside;
      for (std::size_t axis = 0; axis < shape.size(); ++axis)
        node[axis] += origin[axis] * layout.block[axis];
      map.nodes.insert(map.nodes.end(), static_cast<std::size_t>(ranks_per_node), node);
    }
  }
  map.mean_hops = mean_face_hops(mesh, shape, map.nodes);
  return map;
}

double mean_face_hops(const MeshShape& mesh, const NodeShape& shape,
                      const std::vector<NodeShape>& nodes) {
  const auto pairs = face_pairs(mesh.parts);
  if (pairs.empty()) return 0;
  std::int64_t sum = 0;
  for (std::int64_t replica = 0; replica < mesh.replicas; ++replica)
    for (const auto& [a, b] : pairs)
      sum += hops(nodes[static_cast<std::size_t>(mesh.rank_of(replica, a))],
                  nodes[static_cast<std::size_t>(mesh.rank_of(replica, b))], shape);
  return static_cast<double>(sum) /
         static_cast<double>(static_cast<std::int64_t>(pairs.size()) * mesh.replicas);
}

std::string to_host_file(const RankMap& map) {
  std::string text;
  for (const NodeShape& node : map.nodes) {
    text += '(';
    for (std::size_t axis = 0; axis < node.size(); ++axis)
      text += (axis == 0 ? "" : ",") + std::to_string(node[axis]);
    text += ")\n";
  }
  return text;
}

}  // namespace halomesh
