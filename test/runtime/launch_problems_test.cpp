// What is found wrong with a launch, from environments of our own.
#include "runtime/launch_problems.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>

#include "test/harness/test_comm.hpp"
#include "test/runtime/temp_files.hpp"

namespace halomesh {
namespace {

constexpr const char* kA64fx = "Arm implementer 0x46 part 0x001";

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
  const LaunchFacts eight{0, 8, "", 1, 0}, other{1, 8, "", 1, 0};
  CHECK(problem(eight, {}).empty());
  CHECK(problem(eight, {{"SLURM_NTASKS", "8"}}).empty());
  CHECK(problem(eight, {{"SLURM_NTASKS", "rubbish"}}).empty());
  CHECK(problem(other, {{"SLURM_NTASKS", "2"}}).empty());
  CHECK(contains(problem(eight, {{"SLURM_NTASKS", "16"}}), "16 tasks (SLURM_NTASKS)"));
  CHECK(contains(problem(eight, {{"PJM_MPI_PROC", "1"}}), "1 tasks (PJM_MPI_PROC)"));
  CHECK(contains(problem(eight, {{"PJM_MPI_PROC", "1"}}), "world has 8"));
  CHECK(problem(eight, {{"PJM_MPI_PROC", "8"}, {"SLURM_NTASKS", "2"}}).empty());
}

TEST_CASE("a rank on several core memory groups needs pages where they are touched") {
  const LaunchFacts wide{3, 8, kA64fx, 4, 0}, narrow{3, 8, kA64fx, 1, 0},
      x86{3, 8, "AMD EPYC 7763", 4, 0};
  const Environment prepaged = {{"XOS_MMM_L_PAGING_POLICY", "prepage:demand:prepage"}};
  CHECK(contains(problem(wide, {}), "XOS_MMM_L_PAGING_POLICY is not set"));
  CHECK(contains(problem(wide, prepaged), "is prepage:demand:prepage"));
  CHECK(problem(wide, {{"XOS_MMM_L_PAGING_POLICY", "demand:demand:demand"}}).empty());
  CHECK(problem(narrow, prepaged).empty());
  CHECK(problem(x86, {}).empty());
}

TEST_CASE("half of an A64FX core's peak says that one of its units is off") {
  const auto at = [](const char* cpu, double flops) { return problem({0, 1, cpu, 1, flops}, {}); };
  CHECK(contains(at(kA64fx, 69e9), "a core does 69 GF/s"));
  CHECK(contains(at("Fujitsu A64FX", 62e9), "eco_state=0"));
  CHECK(at(kA64fx, 126e9).empty());
  CHECK(at(kA64fx, 0).empty());
  CHECK(at("AMD EPYC 7763", 30e9).empty());
  CHECK(problems({0, 1, kA64fx, 4, 60e9}, {{"SLURM_NTASKS", "4"}}).size() == 3);
}

TEST_CASE("warnings of a launch count the ranks that have them") {
  const Comm& world = test_world();
  RankBinding binding;
  binding.memory_domains = 1;
  ::setenv("PJM_MPI_PROC", std::to_string(world.size() + 1).c_str(), 1);
  const auto warnings = launch_warnings(world, binding);
  ::unsetenv("PJM_MPI_PROC");
  REQUIRE(warnings.size() == 1);
  CHECK(contains(warnings[0], cat("1 of ", world.size(), " ranks, first rank 0: the scheduler")));
}

}  // namespace halomesh
