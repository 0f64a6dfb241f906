// Files of other ranks on the same node, opened by this one.
// Knows nothing of what they hold.
#pragma once

#include <vector>

#include "runtime/descriptor.hpp"
#include "runtime/mpi.hpp"

namespace halomesh {

/// Collective over `group`: a descriptor of each rank's file `mine`, by rank, to be read and
/// written, though it may have no name. None for this rank itself, for ranks of other nodes and for
/// those whose processes this one may not look at, as in containers of their own.
std::vector<Descriptor> open_node_files(const Comm& group, const Descriptor& mine);

}  // namespace halomesh
