// SPDX-License-Identifier: Apache-2.0
// The ranks of this run as a mesh of replicas x parts: this rank's position and communicators.
#pragma once

#include <cstdint>

#include "partition/mesh_shape.hpp"
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
        group_(world.split(static_cast<int>(shape.replica_of(world.rank())), world.rank())) {}

  const MeshShape& shape() const { return shape_; }
  const Comm& world() const { return world_; }
  /// The ranks of this replica; rank in the group = part.
  const Comm& group() const { return group_; }
  std::int64_t replica() const { return shape_.replica_of(world_.rank()); }
  std::int64_t part() const { return shape_.part_of(world_.rank()); }

 private:
  MeshShape shape_;
  Comm world_, group_;
};

}  // namespace halomesh
