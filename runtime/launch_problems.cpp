// What is wrong with how a job was started: see launch_problems.hpp.
// Judges; starts and changes nothing.
#include "runtime/launch_problems.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "error.hpp"

namespace halomesh {
namespace {

/// Less than this of an A64FX core cannot be two units at 2.0 GHz; one at 2.2 GHz has 70.4e9.
constexpr double kA64fxOneUnitFlops = 80e9;

std::optional<std::int64_t> number_in(const Variable& variable, const char* name) {
  const char* const text = variable(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view word = text;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::string size_problem(const LaunchFacts& facts, const Variable& variable) {
  // Other ranks may see the variables of a launcher's own helpers.
  if (facts.rank != 0) return {};
  for (const char* name : {"PJM_MPI_PROC", "SLURM_NTASKS"}) {
    const auto tasks = number_in(variable, name);
    if (!tasks) continue;
    if (*tasks == facts.ranks) return {};
    return cat("the scheduler has started ", *tasks, " tasks (", name, "), but MPI's world has ",
               facts.ranks,
               "; start as many ranks as the job asks for, by a launcher that fits this MPI "
               "library (srun --mpi=pmix or pmi2, its own mpirun)");
  }
  return {};
}

std::string paging_problem(const LaunchFacts& facts, const Variable& variable) {
  if (!is_a64fx(facts.cpu_model) || facts.memory_domains <= 1) return {};
  const char* const policy = variable("XOS_MMM_L_PAGING_POLICY");
  const std::string_view text = policy == nullptr ? "" : policy;
  if (text == "demand" || text.starts_with("demand:")) return {};
  return cat("cores of ", facts.memory_domains, " core memory groups, but XOS_MMM_L_PAGING_POLICY ",
             policy == nullptr ? "is not set" : cat("is ", text),
             ", so that static data lie on one of them; export "
             "XOS_MMM_L_PAGING_POLICY=demand:demand:demand, or start one rank a group");
}

std::string eco_problem(const LaunchFacts& facts) {
  if (!is_a64fx(facts.cpu_model) || facts.core_flops <= 0 || facts.core_flops >= kA64fxOneUnitFlops)
    return {};
  return cat("a core does ", static_cast<std::int64_t>(facts.core_flops / 1e9),
             " GF/s, of at least 128 with both floating-point units; ask for eco_state=0 (#PJM -L "
             "\"freq=2200,eco_state=0\") unless other work shares the cores");
}

const char* environment(const char* name) {
  return std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace

bool is_a64fx(const std::string& cpu_model) {
  return cpu_model.starts_with("Arm implementer 0x46 part 0x001") ||
         cpu_model.find("A64FX") != std::string::npos;
}

std::vector<std::string> launch_problems(const LaunchFacts& facts, const Variable& variable) {
  std::vector<std::string> found = {size_problem(facts, variable), paging_problem(facts, variable),
                                    eco_problem(facts)};
  std::erase(found, "");
  return found;
}

std::vector<std::string> launch_warnings(const Comm& world, const RankBinding& binding,
                                         double core_flops) {
  const LaunchFacts facts{world.rank(), world.size(), describe_node().cpu_model,
                          binding.memory_domains, core_flops};
  std::string mine;
  for (const std::string& problem : launch_problems(facts, environment)) mine += problem + '\n';
  std::map<std::string, std::pair<int, int>> ranks;  // of each sentence: first and number
  std::vector<std::string> order;
  const std::vector<std::string> all = world.all_gather(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::istringstream lines(all[rank]);
    for (std::string line; std::getline(lines, line);) {
      if (!ranks.contains(line)) order.push_back(line);
      auto& [first, number] = ranks.try_emplace(line, static_cast<int>(rank), 0).first->second;
      ++number;
    }
  }
  std::vector<std::string> warnings;
  warnings.reserve(order.size());
  for (const std::string& line : order)
    warnings.push_back(cat(ranks[line].second, " of ", world.size(), " ranks, first rank ",
                           ranks[line].first, ": ", line));
  return warnings;
}

}  // namespace halomesh
