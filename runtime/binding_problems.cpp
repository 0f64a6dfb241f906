// What is wrong with where ranks run: see binding_problems.hpp.
// Knows the cures; asks no system.
#include "runtime/binding_problems.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "error.hpp"

namespace halomesh {
namespace {

struct Explanation {
  BindingProblem problem;
  const char *what, *cure;
};

constexpr std::array<Explanation, 5> kExplanations = {{
    {BindingProblem::kCoresOversubscribed, "share cores with other ranks, for too many threads",
     "start fewer ranks a node or lower OMP_NUM_THREADS"},
    {BindingProblem::kCoresShared, "may run on the cores of other ranks",
     "bind each to its own: srun --cpu-bind=cores, mpirun --map-by slot:PE=THREADS"},
    {BindingProblem::kThreadsExceedCores, "have more threads than cores",
     "lower OMP_NUM_THREADS or bind each rank to more cores"},
    {BindingProblem::kMemoryRemote, "get memory away from their cores",
     "change what numactl or the launcher's memory binding says, or give each rank the cores next "
     "to its memory"},
    {BindingProblem::kMemorySpread, "have cores of several NUMA domains",
     "start at least one rank a NUMA domain and bind it there"},
}};

}  // namespace

std::vector<BindingProblem> problems_of(const RankBinding& binding) {
  std::vector<BindingProblem> found;
  if (binding.sharing.ranks > 1)
    found.push_back(binding.sharing.threads > binding.sharing.cores
                        ? BindingProblem::kCoresOversubscribed
                        : BindingProblem::kCoresShared);
  if (binding.threads > binding.cores) found.push_back(BindingProblem::kThreadsExceedCores);
  if (is_remote(binding.memory, binding.numa_nodes)) found.push_back(BindingProblem::kMemoryRemote);
  if (binding.memory_domains > 1) found.push_back(BindingProblem::kMemorySpread);
  return found;
}

std::vector<std::string> binding_warnings(const Comm& world, const RankBinding& binding) {
  const std::vector<BindingProblem> mine = problems_of(binding);
  std::array<std::int64_t, kExplanations.size()> ranks{};
  const auto is_mine = [&](std::size_t i) {
    return std::count(mine.begin(), mine.end(), kExplanations[i].problem);
  };
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = is_mine(i);
  world.sum(ranks);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == 0) continue;
    const int last = world.size() - 1;
    const int reversed = is_mine(i) > 0 ? last - world.rank() : -1;
    const int first = last - static_cast<int>(world.max(std::int64_t{reversed}));
    lines.push_back(cat(ranks[i], " of ", world.size(), " ranks ", kExplanations[i].what,
                        ", first rank ", first, " (", world.broadcast(binding.describe(), first),
                        "); ", kExplanations[i].cure));
  }
  return lines;
}

}  // namespace halomesh
