// SPDX-License-Identifier: Apache-2.0
// The node of a rank in its job.
#pragma once

#include <cstdint>

#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// The place of a rank. Nodes are numbered in the order of their first ranks, ranks of a node in
/// the order of the job.
struct NodePlace {
  int node = 0, place = 0;  ///< this rank's node, and its number there
  int nodes = 1, most_per_node = 1;
};

/// `node` is the communicator of a node's ranks (Comm::split_by_node()). Collective over `world`.
inline NodePlace node_place(const Comm& world, const Comm& node) {
  const bool is_first = node.rank() == 0;
  const Comm first = world.split(is_first ? 0 : -1, world.rank());
  const auto sum_over = [](const Comm& comm, int value) {
    return static_cast<int>(comm.sum(std::int64_t{value}));
  };
  return {sum_over(node, is_first ? first.rank() : 0), node.rank(),
          sum_over(world, is_first ? 1 : 0),
          static_cast<int>(world.max(std::int64_t{node.size()}))};
}

}  // namespace halomesh
