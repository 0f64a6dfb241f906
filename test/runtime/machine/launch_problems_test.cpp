// SPDX-License-Identifier: Apache-2.0
// Problems of launches, found in given bindings and environments.
#include "runtime/machine/launch_problems.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>

#include "test/harness/temp_files.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

constexpr const char* kA64fx = "Arm implementer 0x46 part 0x001";

/// Bound to 4 cores of its own, with 4 threads and the memory next to them.
RankBinding good_binding(const char* cpu_model = "") {
  RankBinding binding;
  binding.host = "node7";
  binding.processors = {4, 5, 6, 7};
  binding.cores = binding.threads = 4;
  binding.sharing = {1, 4, 4};
  binding.numa_nodes = {1};
  binding.memory_domains = 1;
  binding.memory = {true, false, {0, 1}};
  binding.cpu_model = cpu_model;
  return binding;
}

using Environment = std::map<std::string, std::string>;

std::vector<std::string> problems(const LaunchFacts& facts, const Environment& environment) {
  return launch_problems(facts, [&](const char* name) {
    const auto entry = environment.find(name);
    return entry == environment.end() ? nullptr : entry->second.c_str();
  });
}

/// The only problem, or "".
std::string problem(const LaunchFacts& facts, const Environment& environment) {
  const auto all = problems(facts, environment);
  REQUIRE(all.size() <= 1);
  return all.empty() ? "" : all.front();
}

}  // namespace

TEST_CASE("a world of another size than the scheduler's is a problem of rank 0") {
  const LaunchFacts eight{0, 8, good_binding(), 0}, other{1, 8, good_binding(), 0};
  CHECK(problem(eight, {}).empty());
  CHECK(problem(eight, {{"SLURM_NTASKS", "8"}}).empty());
  CHECK(problem(eight, {{"SLURM_NTASKS", "garbage"}}).empty());
  CHECK(problem(other, {{"SLURM_NTASKS", "2"}}).empty());
  CHECK(contains(problem(eight, {{"SLURM_NTASKS", "16"}}), "16 tasks (SLURM_NTASKS)"));
  CHECK(contains(problem(eight, {{"PJM_MPI_PROC", "1"}}), "1 tasks (PJM_MPI_PROC)"));
  CHECK(contains(problem(eight, {{"PJM_MPI_PROC", "1"}}), "world has 8 ranks; hint: "));
  CHECK(problem(eight, {{"PJM_MPI_PROC", "8"}, {"SLURM_NTASKS", "2"}}).empty());
}

TEST_CASE("a rank on several core memory groups needs pages where they are touched") {
  LaunchFacts wide{3, 8, good_binding(kA64fx), 0}, x86{3, 8, good_binding("AMD EPYC 7763"), 0};
  const LaunchFacts narrow = wide;
  wide.binding.memory_domains = x86.binding.memory_domains = 4;
  const Environment prepaged = {{"XOS_MMM_L_PAGING_POLICY", "prepage:demand:prepage"}};
  // Each comes after the domains as such.
  REQUIRE(problems(wide, {}).size() == 2);
  CHECK(contains(problems(wide, {}).at(1), "XOS_MMM_L_PAGING_POLICY is not set"));
  CHECK(contains(problems(wide, prepaged).at(1), "is prepage:demand:prepage"));
  CHECK(contains(problem(wide, {{"XOS_MMM_L_PAGING_POLICY", "demand:demand:demand"}}),
                 "several NUMA domains"));
  CHECK(problem(narrow, prepaged).empty());
  CHECK(contains(problem(x86, {}), "several NUMA domains"));
}

TEST_CASE("half of an A64FX core's peak says that one of its units is off") {
  const auto at = [](const char* cpu, double flops) {
    return problem({0, 1, good_binding(cpu), flops}, {});
  };
  CHECK(contains(at(kA64fx, 69e9), "a core computes 69 GF/s"));
  CHECK(contains(at("Fujitsu A64FX", 62e9), "eco_state=0"));
  CHECK(at(kA64fx, 126e9).empty());
  CHECK(at(kA64fx, 0).empty());
  CHECK(at("AMD EPYC 7763", 30e9).empty());
  CHECK(problems({0, 1, good_binding(kA64fx), 60e9}, {{"SLURM_NTASKS", "4"}}).size() == 2);
}

TEST_CASE("what ranks share follows from the cores that they may run on") {
  const std::vector<RankCores> bound = {{{0, 1}, 2}, {{2, 3}, 2}};
  CHECK(core_sharing(bound, 1).ranks == 1);
  CHECK(core_sharing(bound, 1).threads == 2);
  CHECK(core_sharing(bound, 1).cores == 2);
  // Not bound at all: three ranks of one thread each on two cores.
  const std::vector<RankCores> loose = {{{0, 1}, 1}, {{0, 1}, 1}, {{0, 1}, 1}};
  CHECK(core_sharing(loose, 0).ranks == 3);
  CHECK(core_sharing(loose, 0).threads == 3);
  CHECK(core_sharing(loose, 0).cores == 2);
  // The middle one overlaps both others, which do not overlap.
  const std::vector<RankCores> chain = {{{0, 1}, 2}, {{1, 2}, 1}, {{2, 3}, 2}};
  CHECK(core_sharing(chain, 0).ranks == 2);
  CHECK(core_sharing(chain, 0).threads == 3);
  CHECK(core_sharing(chain, 0).cores == 3);
  CHECK(core_sharing(chain, 1).threads == 5);
  CHECK(core_sharing(chain, 1).cores == 4);
}

TEST_CASE("each problem of a binding is found, and nothing in a good one") {
  LaunchFacts facts{0, 1, good_binding(), 0};
  RankBinding& binding = facts.binding;
  CHECK(problems(facts, {}).empty());
  SUBCASE("cores for each, but not bound") {
    binding.sharing = {2, 8, 8};
    CHECK(contains(problem(facts, {}), "cores are shared with other ranks; hint: bind"));
  }
  SUBCASE("more threads than cores") {
    binding.sharing = {3, 12, 8};
    CHECK(contains(problem(facts, {{"OMP_WAIT_POLICY", "passive"}}),
                   "shared by ranks that have more threads than cores; hint"));
  }
  SUBCASE("more threads than the rank's own cores") {
    binding.threads = 5;
    CHECK(contains(problem(facts, {}), "more threads than cores; hint: lower"));
  }
  SUBCASE("a single rank with too many threads gets one warning") {
    binding.threads = 8;
    binding.sharing = {1, 8, 4};
    CHECK(contains(problem(facts, {}), "more threads than cores; hint: lower"));
  }
  SUBCASE("a quota of less than its threads") {
    binding.quota = 4;
    CHECK(problems(facts, {}).empty());
    binding.quota = 0.5;
    CHECK(
        contains(problem(facts, {}), "may use 0.5 processors, which 4 threads on the node share"));
    CHECK(contains(binding.describe(), "4 threads, a quota of 0.5 processors; rank 0"));
  }
  SUBCASE("memory of the other socket") {
    binding.memory.nodes = {0};
    CHECK(contains(problem(facts, {}), "away from the rank's cores; hint: change"));
  }
  SUBCASE("cores of two sockets") {
    binding.numa_nodes = {0, 1};
    binding.memory_domains = 2;
    CHECK(contains(problem(facts, {}), "cores of several NUMA domains; hint: start"));
  }
}

TEST_CASE("threads that do not sleep while they wait are a problem where others need their cores") {
  LaunchFacts facts{0, 3, good_binding(), 0};
  RankBinding& binding = facts.binding;
  const Environment active = {{"OMP_WAIT_POLICY", "active"}};
  CHECK(problems(facts, active).empty());
  binding.sharing = {2, 8, 8};  // not bound, but with cores for all
  CHECK(problems(facts, active).size() == 1);
  binding.sharing = {3, 12, 8};
  CHECK(problems(facts, {{"OMP_WAIT_POLICY", " Passive"}}).size() == 1);
  CHECK(problems(facts, {{"GOMP_SPINCOUNT", "1000"}}).size() == 1);
  REQUIRE(problems(facts, {}).size() == 2);
  REQUIRE(problems(facts, active).size() == 2);
  CHECK(contains(problems(facts, active).at(1), "hint: export OMP_WAIT_POLICY=passive"));
  binding.threads = 1;  // nothing to wait for
  binding.sharing = {3, 3, 2};
  CHECK(problems(facts, active).size() == 1);
}

TEST_CASE("a warning counts the ranks and names the first of them and the hint") {
  const Comm& world = test_world();
  CHECK(launch_warnings(world, good_binding()).empty());
  RankBinding binding = good_binding();
  // All ranks but, where there are several, the first.
  const int first = world.size() == 1 ? 0 : 1;
  if (world.rank() >= first) binding.memory.nodes = {0};
  ::setenv("PJM_MPI_PROC", std::to_string(world.size() + 1).c_str(), 1);
  const auto lines = launch_warnings(world, binding);
  ::unsetenv("PJM_MPI_PROC");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with(fmt::format("1 of {} ranks, first rank 0 (node7: ", world.size())));
  CHECK(contains(lines[0], "): the scheduler started"));
  CHECK(lines[1].starts_with(fmt::format("{} of {} ranks, first rank {} (node7: processors 4-7; ",
                                         world.size() - first, world.size(), first)));
  CHECK(contains(lines[1], "NUMA node 1, memory from 0): memory is allocated"));
}

}  // namespace halomesh
