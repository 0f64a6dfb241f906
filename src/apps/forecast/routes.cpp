// SPDX-License-Identifier: Apache-2.0
// Topologies and routes: see routes.hpp.
#include "src/apps/forecast/routes.hpp"

#include <algorithm>
#include <cmath>

#include "error.hpp"

namespace halomesh {
namespace {

// The extents with the least sum of all that multiply to `nodes`: the most cube-like.
std::array<std::int64_t, 3> cube(std::int64_t nodes) {
  std::array<std::int64_t, 3> best{nodes, 1, 1};
  for (std::int64_t a = 1; a * a * a <= nodes; ++a)
    for (std::int64_t b = a; nodes % a == 0 && a * b * b <= nodes; ++b)
      if (nodes / a % b == 0 && nodes / a / b + a + b < best[0] + best[1] + best[2])
        best = {nodes / a / b, b, a};
  return best;
}

// The smallest box of at least `nodes` nodes without a very long edge, which no machine would give
// a job: 16381 nodes, a prime number, are in 32x32x16.
std::array<std::int64_t, 3> box_of(std::int64_t nodes) {
  constexpr double kLongest = 4;  // in edges of the cube with as many nodes
  for (std::int64_t n = nodes;; ++n)
    if (const auto box = cube(n);
        static_cast<double>(box[0]) <= kLongest * std::cbrt(static_cast<double>(n)))
      return box;
}

std::int64_t rounded_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit; }

void want_extents(const Machine& machine, std::size_t extents, const char* names) {
  if (machine.shape.size() != extents)
    throw UsageError(fmt::format("{}: a {} needs a shape of {} extents", machine.name,
                                 name_of(machine.interconnect), extents),
                     fmt::format("give shape = {}", names));
}

// Makes an Aries network, the only dragonfly so far. Chassis c and router r of a group are joined
// to all others with the c or r in common, directly or through one router. Adaptive routing spreads
// a pair's messages over these ways, which no static route can do. All routers of a group are
// therefore joined pairwise, at the rate of the three links between two chassis. The pairs of
// groups share ten optical links of each router.
void make_dragonfly(const Machine& machine, std::int64_t nodes, NetworkShape& t) {
  want_extents(machine, 4, "GROUPSxCHASSISxROUTERSxNODES");
  constexpr double kPairLinks = 3, kOpticalLinks = 10, kOpticalShare = 4.7 / 5.25;
  const auto& s = machine.shape;
  t.routers = s[1] * s[2];
  t.nodes_of_router = s[3];
  t.groups = std::max<std::int64_t>(rounded_up(nodes, t.routers * t.nodes_of_router), 2);
  // A node's own link joins no routers, but carries all that the node sends.
  const double link = machine.value("link-gbs") > 0 ? machine.value("link-gbs") * 1e9
                                                    : machine.value("message-gbs") * 1e9;
  t.link_bytes_per_s = machine.value("message-gbs") * 1e9;
  const auto units = [&](double links) {
    return std::max<std::int64_t>(std::llround(links * link / t.link_bytes_per_s), 1);
  };
  t.pair_links = units(kPairLinks);
  t.group_links = units(kOpticalLinks * kOpticalShare * static_cast<double>(t.routers) /
                        static_cast<double>(t.groups - 1));
}

}  // namespace

std::int64_t NetworkShape::nodes() const {
  switch (kind) {
    case Interconnect::kTorus:
      return extents[0] * extents[1] * extents[2];
    case Interconnect::kDragonfly:
      return groups * routers * nodes_of_router;
    case Interconnect::kFatTree:
      return children[0] * children[1] * children[2];
    case Interconnect::kNone:
      break;
  }
  return 0;
}

NetworkShape network_shape_of(const Machine& machine, std::int64_t nodes) {
  NetworkShape t;
  t.kind = machine.interconnect;
  // The rate at which all ranks of a node can fill its link; a few ranks may not reach it.
  const auto ranks = static_cast<double>(machine.ranks_per_node());
  const double link = machine.value("link-gbs"), message = machine.value("message-gbs");
  t.link_bytes_per_s = (link > 0 ? std::min(link, ranks * message) : message) * 1e9;
  const auto& s = machine.shape;
  switch (machine.interconnect) {
    case Interconnect::kTorus:
      t.extents = box_of(nodes);
      return t;
    case Interconnect::kDragonfly:
      make_dragonfly(machine, nodes, t);
      return t;
    case Interconnect::kFatTree:
      if (s.empty()) {
        t.children = {nodes, 1, 1};
        return t;
      }
      want_extents(machine, 3, "NODESxSWITCHESxSWITCHES, the children of each level");
      t.children = {s[0], s[1], std::max<std::int64_t>(rounded_up(nodes, s[0] * s[1]), 1)};
      return t;
    case Interconnect::kNone:
      break;
  }
  throw UsageError(fmt::format("{} has no network between nodes", machine.name),
                   "name a machine with a network, or calibrate on two nodes or more");
}

Routes::Routes(const NetworkShape& topology) : shape_(topology) {
  const NetworkShape& t = shape_;
  const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  switch (t.kind) {
    case Interconnect::kTorus:
      links_ = count(t.nodes() * 3 * 2);
      break;
    case Interconnect::kDragonfly:  // nodes, pairs of routers, pairs of groups
      first_pair_ = count(t.nodes() * 2);
      first_group_ = first_pair_ + count(t.groups * t.routers * t.routers);
      links_ = first_group_ + count(t.groups * t.groups);
      break;
    case Interconnect::kFatTree:  // nodes, leaves to middle switches, middle to top switches
      first_pair_ = count(t.nodes() * 2);
      first_group_ = first_pair_ + count(t.children[2] * t.children[1] * t.children[1] * 2);
      links_ = first_group_ + count(t.children[2] * t.children[1] * t.children[1] * 2);
      break;
    case Interconnect::kNone:
      break;
  }
}

double Routes::bytes_per_s(std::size_t link) const {
  if (shape_.kind != Interconnect::kDragonfly || link < first_pair_) return shape_.link_bytes_per_s;
  return shape_.link_bytes_per_s *
         static_cast<double>(link < first_group_ ? shape_.pair_links : shape_.group_links);
}

void Routes::append(std::int64_t from, std::int64_t to, std::vector<std::size_t>& route) const {
  if (from == to) return;
  if (shape_.kind == Interconnect::kTorus) append_torus(from, to, route);
  if (shape_.kind == Interconnect::kDragonfly) append_dragonfly(from, to, route);
  if (shape_.kind == Interconnect::kFatTree) append_tree(from, to, route);
}

// Link (node, axis, 0) leads to the next node, (node, axis, 1) from there back to this one.
void Routes::append_torus(std::int64_t from, std::int64_t to,
                          std::vector<std::size_t>& route) const {
  std::int64_t stride = 1;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t k = shape_.extents[axis];
    const std::int64_t begin = from / stride % k, end = to / stride % k;
    const std::int64_t ahead = (end - begin + k) % k;
    const bool up = 2 * ahead < k || (2 * ahead == k && (end > begin || 2 * begin > k));
    for (std::int64_t at = begin; at != end;) {
      const std::int64_t next = up ? (at + 1) % k : (at + k - 1) % k;
      const std::int64_t lower = from + ((up ? at : next) - begin) * stride;
      route.push_back((static_cast<std::size_t>(lower) * 3 + axis) * 2 + (up ? 0 : 1));
      at = next;
    }
    from += (end - begin) * stride;
    stride *= k;
  }
}

void Routes::append_dragonfly(std::int64_t from, std::int64_t to,
                              std::vector<std::size_t>& route) const {
  const NetworkShape& t = shape_;
  const auto link = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  std::int64_t at = from / t.nodes_of_router;
  const std::int64_t last = to / t.nodes_of_router;
  const auto hop = [&](std::int64_t router) {
    if (router != at) route.push_back(first_pair_ + link(at * t.routers + router % t.routers));
    at = router;
  };
  route.push_back(link(from * 2));
  const std::int64_t group = at / t.routers, other = last / t.routers;
  if (group != other) {
    hop(group * t.routers + other);
    route.push_back(first_group_ + link(group * t.groups + other));
    at = other * t.routers + group;
  }
  hop(last);
  route.push_back(link(to * 2 + 1));
}

void Routes::append_tree(std::int64_t from, std::int64_t to,
                         std::vector<std::size_t>& route) const {
  const std::int64_t leaf_nodes = shape_.children[0], ports = shape_.children[1];
  const auto link = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  const auto both = [&](std::size_t first, std::int64_t up, std::int64_t down) {
    if (up >= 0) route.push_back(first + link(up) * 2);
    if (down >= 0) route.push_back(first + link(down) * 2 + 1);
  };
  both(0, from, -1);
  const std::int64_t leaf = from / leaf_nodes, last = to / leaf_nodes;
  const std::int64_t pod = leaf / ports, other = last / ports;
  const std::int64_t port = to % ports, upper = to / ports % ports;
  if (leaf != last) both(first_pair_, leaf * ports + port, -1);
  if (pod != other)
    both(first_group_, (pod * ports + port) * ports + upper,
         (other * ports + port) * ports + upper);
  if (leaf != last) both(first_pair_, -1, last * ports + port);
  both(0, -1, to);
}

}  // namespace halomesh
