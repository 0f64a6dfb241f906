// SPDX-License-Identifier: Apache-2.0
// Problems with how a job was started: see launch_problems.hpp.
#include "runtime/machine/launch_problems.hpp"

#include <algorithm>
#include <cctype>
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

/// A speed that an A64FX core exceeds if it runs two units at 2.0 GHz; one unit at 2.2 GHz reaches
/// 70.4e9.
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
  // Other ranks may see the variables of the launcher's helper processes.
  if (facts.rank != 0) return {};
  for (const char* name : {"PJM_MPI_PROC", "SLURM_NTASKS"}) {
    const auto tasks = number_in(variable, name);
    if (!tasks) continue;
    if (*tasks == facts.ranks) return {};
    return fmt::format(
        "the scheduler started {} tasks ({}), but the MPI world has {} ranks; hint: use the "
        "launcher of this MPI library (its own mpirun, or srun --mpi=pmix or pmi2) and start one "
        "rank per task",
        *tasks, name, facts.ranks);
  }
  return {};
}

std::string sharing_problem(const RankBinding& binding) {
  if (binding.sharing.ranks <= 1) return {};
  return binding.sharing.threads > binding.sharing.cores
             ? "cores are shared by ranks that have more threads than cores; hint: start fewer "
               "ranks per node or lower OMP_NUM_THREADS"
             : "cores are shared with other ranks; hint: bind each rank to its own: srun "
               "--cpu-bind=cores, mpirun --map-by slot:PE=THREADS";
}

std::string threads_problem(const RankBinding& binding) {
  if (binding.threads <= binding.cores) return {};
  return "more threads than cores; hint: lower OMP_NUM_THREADS or bind each rank to more cores";
}

std::string quota_problem(const RankBinding& binding) {
  const int threads = binding.threads * binding.ranks_on_node;
  if (!binding.quota || threads <= *binding.quota) return {};
  return fmt::format(
      "the control group may use {:.3g} processors, which {} threads on the node share; hint: "
      "raise its quota (docker --cpus, a pod's CPU limit), or start fewer ranks or threads",
      *binding.quota, threads);
}

/// The value of OMP_WAIT_POLICY, which may be in any case and have blanks around it.
std::string wait_policy(const Variable& variable) {
  std::string word;
  for (const char* at = variable("OMP_WAIT_POLICY"); at != nullptr && *at != '\0'; ++at)
    if (*at != ' ' && *at != '\t') word += static_cast<char>(std::tolower(*at));
  return word;
}

std::string waiting_problem(const RankBinding& binding, const Variable& variable) {
  const bool crowded = binding.sharing.ranks > 1 && binding.sharing.threads > binding.sharing.cores;
  if (!crowded || binding.threads <= 1 || wait_policy(variable) == "passive" ||
      variable("GOMP_SPINCOUNT") != nullptr || variable("KMP_BLOCKTIME") != nullptr)
    return {};
  return "threads that wait keep cores that other ranks need; hint: export "
         "OMP_WAIT_POLICY=passive, or start fewer threads";
}

std::string memory_problem(const RankBinding& binding) {
  if (!is_remote(binding.memory, binding.numa_nodes)) return {};
  return "memory is allocated on a NUMA node away from the rank's cores; hint: change the memory "
         "binding of numactl or of the launcher, or bind each rank to the cores next to its memory";
}

std::string domains_problem(const RankBinding& binding) {
  if (binding.memory_domains <= 1) return {};
  return "cores of several NUMA domains; hint: start at least one rank per NUMA domain and bind it "
         "there";
}

std::string paging_problem(const LaunchFacts& facts, const Variable& variable) {
  if (!is_a64fx(facts.binding.cpu_model) || facts.binding.memory_domains <= 1) return {};
  const char* const policy = variable("XOS_MMM_L_PAGING_POLICY");
  const std::string_view text = policy == nullptr ? "" : policy;
  if (text == "demand" || text.starts_with("demand:")) return {};
  return fmt::format(
      "XOS_MMM_L_PAGING_POLICY {}, so that static data of a rank on {} core memory groups lie on "
      "one of them; hint: export XOS_MMM_L_PAGING_POLICY=demand:demand:demand, or start one rank "
      "per group",
      policy == nullptr ? "is not set" : fmt::format("is {}", text), facts.binding.memory_domains);
}

std::string eco_problem(const LaunchFacts& facts) {
  if (!is_a64fx(facts.binding.cpu_model) || facts.core_flops <= 0 ||
      facts.core_flops >= kA64fxOneUnitFlops)
    return {};
  return fmt::format(
      "a core computes {} GF/s, but at least 128 with both floating-point units; hint: ask for "
      "eco_state=0 (#PJM -L \"freq=2200,eco_state=0\") unless other work shares the cores",
      static_cast<std::int64_t>(facts.core_flops / 1e9));
}

const char* environment(const char* name) {
  return std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace

bool waits_actively(const Variable& variable) { return wait_policy(variable) == "active"; }

bool is_a64fx(const std::string& cpu_model) {
  return cpu_model.starts_with("Arm implementer 0x46 part 0x001") ||
         cpu_model.find("A64FX") != std::string::npos;
}

std::vector<std::string> launch_problems(const LaunchFacts& facts, const Variable& variable) {
  std::vector<std::string> found = {size_problem(facts, variable),
                                    sharing_problem(facts.binding),
                                    threads_problem(facts.binding),
                                    quota_problem(facts.binding),
                                    waiting_problem(facts.binding, variable),
                                    memory_problem(facts.binding),
                                    domains_problem(facts.binding),
                                    paging_problem(facts, variable),
                                    eco_problem(facts)};
  std::erase(found, "");
  return found;
}

std::vector<std::string> launch_warnings(const Comm& world, const RankBinding& binding,
                                         double core_flops) {
  const LaunchFacts facts{world.rank(), world.size(), binding, core_flops};
  std::string mine;
  for (const std::string& problem : launch_problems(facts, environment)) mine += problem + '\n';
  // By sentence: the first rank and the number of ranks.
  std::map<std::string, std::pair<int, int>> ranks;
  std::vector<std::string> order;
  const std::vector<std::string> all = world.gather(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::istringstream lines(all[rank]);
    for (std::string line; std::getline(lines, line);) {
      if (!ranks.contains(line)) order.push_back(line);
      auto& [first, number] = ranks.try_emplace(line, static_cast<int>(rank), 0).first->second;
      ++number;
    }
  }
  std::string found;
  for (const std::string& line : order)
    found += fmt::format("{} {} {}\n", ranks.at(line).first, ranks.at(line).second, line);
  std::vector<std::string> warnings;
  std::istringstream lines(world.broadcast(found, 0));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    int first = 0, number = 0;
    words >> first >> number;
    std::getline(words.ignore(), line);
    warnings.push_back(fmt::format("{} of {} ranks, first rank {} ({}): {}", number, world.size(),
                                   first, world.broadcast(binding.describe(), first), line));
  }
  return warnings;
}

}  // namespace halomesh
