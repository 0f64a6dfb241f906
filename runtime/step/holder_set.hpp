// SPDX-License-Identifier: Apache-2.0
// The ranks that hold the same parameters: their numbers in the set and in the world.
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

/// The holders of some parts of every replica, in the order of their world ranks. Its memory does
/// not grow with the replicas.
struct HolderSet {
  MeshShape shape;
  std::vector<std::int64_t> parts;  ///< ascending
  SumPlace place;                   ///< one rank per node where nodes have unequal numbers
  int ranks_per_node = 1;           ///< as in the mesh

  /// `of_a_node` is ProcessMesh::ranks_per_node().
  HolderSet(const MeshShape& mesh, int of_a_node, std::vector<std::int64_t> holding_parts);

  /// How to sum `bytes` over the holders: choose_sum() by default_network(), for routes on `torus`,
  /// whose nodes the ranks of the mesh fill in order.
  SumChoice choose(Reduction reduction, double bytes, const Torus& torus) const;

  int size() const { return place.ranks; }
  int per_replica() const { return static_cast<int>(parts.size()); }
  /// The world rank of a holder.
  int world_rank(int holder) const;
  /// The number of the holder at (replica, part); `part` is one of the parts.
  int holder(std::int64_t replica, std::int64_t part) const;
};

/// Communicators for sums by MPI itself, one for each of `sets`, which are this rank's, in their
/// order. Collective over mesh.world(), which it splits once for every round of disjoint sets of
/// the whole network.
std::vector<Comm> comms_of(const ProcessMesh& mesh, const ModelGeometry& geometry,
                           const std::vector<HolderSet>& sets);

}  // namespace halomesh
