// SPDX-License-Identifier: Apache-2.0
// The links of a machine's network that a message takes: the topology that platform.hpp writes down
// for SimGrid, and its static routes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/apps/forecast/machine.hpp"

namespace halomesh {

/// The nodes of a job as a network; `kind` says which of the shapes is meant.
struct NetworkShape {
  Interconnect kind = Interconnect::kNone;
  /// Torus: the most cube-like extents; node numbers run along the first.
  std::array<std::int64_t, 3> extents{1, 1, 1};
  /// Dragonfly: links of `pair_links` times the rate of a node's link join the routers of a group
  /// pairwise; one of `group_links` times that rate joins two groups.
  std::int64_t groups = 0, routers = 0, nodes_of_router = 0, pair_links = 1, group_links = 1;
  /// Fat tree: the children of each level. A leaf has switches[1] links up, as has each switch
  /// above it.
  std::array<std::int64_t, 3> children{1, 1, 1};
  double link_bytes_per_s = 0;  ///< the rate at which all ranks of a node can fill its link

  /// The number of nodes in the network: at least those of the job.
  std::int64_t nodes() const;
};

/// The part of the machine's network that holds `nodes` nodes. Throws UsageError for a machine
/// without a network, or whose shape has a wrong number of extents.
NetworkShape network_shape_of(const Machine& machine, std::int64_t nodes);

/// Routes between nodes. Links are numbered; each direction is a link of its own.
class Routes {
 public:
  /// No links at all: every route is empty.
  Routes() = default;
  explicit Routes(const NetworkShape& topology);

  std::size_t links() const { return links_; }
  double bytes_per_s(std::size_t link) const;
  /// Appends the links from one node to another; from a node to itself there are none. A torus is
  /// crossed axis by axis, the shorter way (of two equal ones, SimGrid's choice); a dragonfly
  /// through the one router that joins the groups; a fat tree through the ports that the
  /// destination's number selects (d-mod-k).
  void append(std::int64_t from, std::int64_t to, std::vector<std::size_t>& route) const;

 private:
  void append_torus(std::int64_t from, std::int64_t to, std::vector<std::size_t>& route) const;
  void append_dragonfly(std::int64_t from, std::int64_t to, std::vector<std::size_t>& route) const;
  void append_tree(std::int64_t from, std::int64_t to, std::vector<std::size_t>& route) const;

  NetworkShape shape_;
  std::size_t links_ = 0, first_pair_ = 0, first_group_ = 0;
};

}  // namespace halomesh
