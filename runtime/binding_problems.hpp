// What is wrong with where ranks run: shared cores, too many threads, memory far away.
// Judges a RankBinding; looks at nothing itself.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/binding.hpp"

namespace halomesh {

enum class BindingProblem {
  kCoresOversubscribed,  ///< ranks with common cores have more threads than cores
  kCoresShared,          ///< another rank may run on the same cores
  kThreadsExceedCores,   ///< more threads than cores of this rank
  kMemoryRemote,         ///< what this rank touches first lies, in part, away from its cores
  kMemorySpread          ///< its cores are next to several memories; what it touches is in one
};

/// Of one rank, each problem once; the worse of two kinds of sharing only.
std::vector<BindingProblem> problems_of(const RankBinding& binding);

/// One line for each problem that any rank has: how many ranks have it, the first of them, and the
/// cure. The same on every rank. Collective over `world`.
std::vector<std::string> binding_warnings(const Comm& world, const RankBinding& binding);

}  // namespace halomesh
