// Which bindings are warned of, and what the warning says.
#include "runtime/binding_problems.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "error.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

using Problems = std::vector<BindingProblem>;

/// Bound to 4 cores of its own, with 4 threads and the memory next to them.
RankBinding good_binding() {
  RankBinding binding;
  binding.host = "node7";
  binding.processors = {4, 5, 6, 7};
  binding.cores = binding.threads = 4;
  binding.sharing = {1, 4, 4};
  binding.numa_nodes = {1};
  binding.memory_domains = 1;
  binding.memory = {true, false, {0, 1}};
  return binding;
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

TEST_CASE("each problem is found, and nothing in a good binding") {
  CHECK(problems_of(good_binding()).empty());
  RankBinding binding = good_binding();
  SUBCASE("cores for each, but not bound") {
    binding.sharing = {2, 8, 8};
    CHECK(problems_of(binding) == Problems{BindingProblem::kCoresShared});
  }
  SUBCASE("more threads than cores") {
    binding.sharing = {3, 12, 8};
    CHECK(problems_of(binding) == Problems{BindingProblem::kCoresOversubscribed});
  }
  SUBCASE("more threads than the rank's own cores") {
    binding.threads = 5;
    CHECK(problems_of(binding) == Problems{BindingProblem::kThreadsExceedCores});
  }
  SUBCASE("one rank alone with too many threads is told so once") {
    binding.threads = 8;
    binding.sharing = {1, 8, 4};
    CHECK(problems_of(binding) == Problems{BindingProblem::kThreadsExceedCores});
  }
  SUBCASE("memory of the other socket") {
    binding.memory.nodes = {0};
    CHECK(problems_of(binding) == Problems{BindingProblem::kMemoryRemote});
  }
  SUBCASE("cores of two sockets") {
    binding.numa_nodes = {0, 1};
    binding.memory_domains = 2;
    CHECK(problems_of(binding) == Problems{BindingProblem::kMemorySpread});
  }
}

TEST_CASE("a warning counts the ranks and names the first of them and the cure") {
  const Comm& world = test_world();
  CHECK(binding_warnings(world, good_binding()).empty());
  RankBinding binding = good_binding();
  // All ranks but, where there are several, the first.
  const bool bad = world.size() == 1 || world.rank() > 0;
  if (bad) binding.memory.nodes = {0};
  const auto lines = binding_warnings(world, binding);
  REQUIRE(lines.size() == 1);
  const int first = world.size() == 1 ? 0 : 1;
  CHECK(lines[0].find(cat(world.size() - first, " of ", world.size(), " ranks get memory away")) ==
        0);
  CHECK(lines[0].find(cat("first rank ", first, " (node7: processors 4-7; ")) != std::string::npos);
  CHECK(lines[0].find("NUMA node 1, memory from 0); change what numactl") != std::string::npos);
}

}  // namespace
}  // namespace halomesh
