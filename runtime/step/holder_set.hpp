// SPDX-License-Identifier: Apache-2.0
// The ranks that hold the same parameters: their numbers among themselves and in the world.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/cost/network_cost.hpp"
#include "partition/model_geometry.hpp"
#include "partition/torus.hpp"
#include "runtime/mpi/mpi.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/step/reduction.hpp"

namespace halomesh {

/// The holders of some parts of every replica, in the order of their world ranks. Needs no memory
/// that grows with the replicas.
struct HolderSet {
  MeshShape shape;
  std::vector<std::int64_t> parts;  ///< ascending
  SumPlace place;                   ///< one rank a node where nodes do not have equally many
  int ranks_per_node = 1;           ///< of the mesh

  /// `of_a_node` as ProcessMesh::ranks_per_node().
  HolderSet(const MeshShape& mesh, int of_a_node, std::vector<std::int64_t> holding_parts);

  /// How to sum `bytes` over the holders: choose_sum() by default_network(), with the ways of
  /// `torus`, whose nodes the ranks of the mesh fill in order.
  SumChoice choose(Reduction reduction, double bytes, const Torus& torus) const;

  int size() const { return place.ranks; }
  int per_replica() const { return static_cast<int>(parts.size()); }
  /// The world rank of a holder.
  int world_rank(int holder) const;
  /// The number of the holder in `replica` that is `part`, one of the parts.
  int holder(std::int64_t replica, std::int64_t part) const;
};

/// For sums by MPI itself: communicators of each of `sets`, which are those of this rank, in
/// their order. Collective over mesh.world(): splits it once for every number of disjoint sets of
/// the whole network.
std::vector<Comm> comms_of(const ProcessMesh& mesh, const ModelGeometry& geometry,
                           const std::vector<HolderSet>& sets);

}  // namespace halomesh
