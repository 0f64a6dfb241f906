// Work that all ranks do together although each may fail alone: they learn of it and end alike.
// Knows nothing of what is done.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/mpi.hpp"

namespace halomesh {

/// Runs `work` on rank 0 and gives every rank its text; throws what it threw on every rank.
/// Collective.
std::string on_first_rank(const Comm& comm, const std::function<std::string()>& work);

/// Runs `work` on every rank and gives every rank all texts, in the order of ranks; throws on every
/// rank the Error of the first rank whose work threw one. Collective.
std::vector<std::string> on_every_rank(const Comm& comm, const std::function<std::string()>& work);

/// The same for long work, which asks `others_failed` now and then and returns once that is true:
/// so all clean up and end soon after one fails, and not before. Collective.
void together(const Comm& comm,
              const std::function<void(const std::function<bool()>& others_failed)>& work);

}  // namespace halomesh
