// SPDX-License-Identifier: Apache-2.0
// Files through which the ranks of a node pass data to each other.
#pragma once

#include <functional>
#include <vector>

#include "runtime/mpi/mpi.hpp"
#include "runtime/posix/descriptor.hpp"

namespace halomesh {

/// One file for each ordered pair of ranks of a node, so that no rank waits for a file that another
/// rank writes. Indexed by rank of the group; empty for this rank itself, for ranks of other nodes,
/// and where the reader cannot open the writer's file, as in separate containers.
struct NodeFiles {
  std::vector<Descriptor> outgoing;  ///< written by this rank, read by the other one
  std::vector<Descriptor> incoming;  ///< written by the other one, read by this rank
};

/// Collective over `group`. `reads` says whether this rank reads files of others. `make` creates an
/// empty file, which may be nameless but whose descriptor can be reopened through /proc.
NodeFiles exchange_node_files(const Comm& group, bool reads,
                              const std::function<Descriptor()>& make);

}  // namespace halomesh
