// SPDX-License-Identifier: Apache-2.0
// The ranks of a run as a mesh of replicas x parts, with this rank's position and communicators.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>

#include "partition/mesh_shape.hpp"
#include "partition/torus.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// World ranks as replicas of groups of parts; consecutive world ranks form a group:
///
///   world   0 1 2 3 4 5 6 7        parts 2x2x1, 2 replicas
///   part    0 1 2 3 0 1 2 3        group  = {0 1 2 3} or {4 5 6 7}
///   replica 0 0 0 0 1 1 1 1
class ProcessMesh {
 public:
  /// Collective over `world`, whose size must be shape.ranks(); duplicates it.
  ProcessMesh(const Comm& world, const MeshShape& shape)
      : shape_(shape),
        world_(world.dup()),
        group_(world.split(static_cast<int>(shape.replica_of(world.rank())), world.rank())),
        ranks_per_node_(equal_nodes()),
        torus_(torus_of_environment()) {}

  const MeshShape& shape() const { return shape_; }
  const Comm& world() const { return world_; }
  /// The ranks of this replica; rank in the group = part.
  const Comm& group() const { return group_; }
  /// The ranks that share a node's memory with this one.
  const Comm& node() const { return world_.node(); }
  /// The number of ranks on each node if all nodes have equally many, at consecutive ranks;
  /// otherwise 1. The same on every rank.
  int ranks_per_node() const { return ranks_per_node_; }
  /// The nodes as a torus, if the environment variable HALOMESH_TORUS is set; see parse_torus().
  const Torus& torus() const { return torus_; }
  std::int64_t replica() const { return shape_.replica_of(world_.rank()); }
  std::int64_t part() const { return shape_.part_of(world_.rank()); }

 private:
  static Torus torus_of_environment() {
    const char* const text = std::getenv("HALOMESH_TORUS");  // NOLINT: nobody sets it meanwhile
    return parse_torus(text == nullptr ? "" : text, "HALOMESH_TORUS");
  }
  int equal_nodes() const {
    // Ranks of a node have the order of the world.
    const Comm& node = world_.node();
    const std::int64_t first = world_.rank() - node.rank();
    const bool together = node.max(first) == first && node.max(-first) == -first;
    std::array<std::int64_t, 3> most{node.size(), -node.size(), together ? 0 : 1};
    world_.max(most);
    return most[0] == -most[1] && most[2] == 0 ? node.size() : 1;
  }

  MeshShape shape_;
  Comm world_, group_;
  int ranks_per_node_;
  Torus torus_;
};

}  // namespace halomesh
