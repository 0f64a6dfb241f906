// SPDX-License-Identifier: Apache-2.0
// Sums of a few numbers over the parts of a network, with the same bits on every rank.
#pragma once

#include <span>
#include <vector>

#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// Gathers the numbers of all parts and adds them in the order of parts. MPI_Allreduce may add in a
/// different order on each replica, and the replicas would drift apart.
///
///   part          0        1        2
///   before        a        b        c
///   after     a + b + c on every part, of every replica
///
/// Moves and keeps P numbers for each sum over P parts: meant for norms, not for tensors. Allocates
/// only in the first sum and in longer ones.
class PartSums {
 public:
  /// `group`, the ranks of a replica in the order of parts, must outlive this object.
  explicit PartSums(const Comm& group) : group_(group) {}

  /// Replaces `values` by their sums. Collective over the group; every part passes equally many
  /// values.
  void sum(std::span<double> values);

 private:
  const Comm& group_;
  std::vector<double> gathered_;
};

}  // namespace halomesh
