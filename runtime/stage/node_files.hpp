// SPDX-License-Identifier: Apache-2.0
// Files that ranks of one node write for each other.
#pragma once

#include <functional>
#include <vector>

#include "runtime/mpi/mpi.hpp"
#include "runtime/posix/descriptor.hpp"

namespace halomesh {

/// One file for each ordered pair of ranks of a node, so that nobody waits for a file in which
/// another one writes. By rank of the group; no descriptor for this rank itself, for ranks of other
/// nodes, and where the one that is to read cannot open the file of the one that writes, as in
/// containers of their own.
struct NodeFiles {
  std::vector<Descriptor> outgoing;  ///< that this rank writes, to be read by that one
  std::vector<Descriptor> incoming;  ///< that that one writes, to be read by this rank
};

/// Collective over `group`. `reads`: whether this rank wants files of others. `make` makes an empty
/// file, which may have no name, and lets descriptors be opened again through /proc.
NodeFiles exchange_node_files(const Comm& group, bool reads,
                              const std::function<Descriptor()>& make);

}  // namespace halomesh
