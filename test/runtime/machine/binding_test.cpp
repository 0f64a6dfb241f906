// SPDX-License-Identifier: Apache-2.0
// Where a rank runs: shares of a node, processor lists, descriptions of machines.
#include "runtime/machine/binding.hpp"

#include <doctest/doctest.h>
#include <sched.h>

#include <cstdlib>

#include "test/harness/temp_files.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

/// Sets a variable of the environment for as long as this object lives; nullptr unsets it.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    const char* const before = std::getenv(name);
    had_ = before != nullptr;
    if (had_) before_ = before;
    set(value);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { set(had_ ? before_.c_str() : nullptr); }

 private:
  void set(const char* value) {
    if (value != nullptr)
      ::setenv(name_, value, 1);
    else
      ::unsetenv(name_);
  }
  const char* name_;
  bool had_ = false;
  std::string before_;
};

}  // namespace

TEST_CASE("threads are an equal share of the node, bounded by the rank's own cores") {
  struct Row {
    const char* variable;
    int node_cores, ranks, own_cores, threads;
  };
  for (const Row& row :
       {Row{nullptr, 48, 4, 12, 12}, Row{nullptr, 48, 4, 48, 12}, Row{nullptr, 48, 5, 48, 9},
        Row{nullptr, 2, 4, 2, 1}, Row{nullptr, 48, 1, 6, 6}, Row{"", 8, 2, 8, 4},
        Row{"3", 48, 4, 12, 3}, Row{"16", 2, 4, 1, 16}, Row{"4,2", 48, 4, 12, 4},
        Row{" 2 ", 48, 4, 12, 2}}) {
    CAPTURE(row.ranks);
    CHECK(default_threads(row.variable, row.node_cores, row.ranks, row.own_cores) == row.threads);
  }
  CHECK(default_threads(nullptr, 48, 4, 12, 0.5) == 1);
  CHECK(default_threads(nullptr, 2, 1, 2, 1.5) == 2);
  CHECK(default_threads(nullptr, 48, 4, 12, 8.5) == 3);
  CHECK(default_threads(nullptr, 8, 1, 8, 64) == 8);
  CHECK(default_threads("4", 8, 1, 8, 0.5) == 4);
  for (const char* wrong : {"0", "-1", "four", "4x", " ", "99999999999"})
    CHECK_THROWS_AS(default_threads(wrong, 4, 1, 4), UsageError);
}

TEST_CASE("processor lists are printed as ranges") {
  CHECK(to_ranges({}) == "");
  CHECK(to_ranges({5}) == "5");
  CHECK(to_ranges({0, 1, 2, 3, 8}) == "0-3,8");
  CHECK(to_ranges({0, 2, 3, 5, 6, 7}) == "0,2-3,5-7");
}

TEST_CASE("the binding is what the launcher gave this process") {
  cpu_set_t before;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  int last = 0, count = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &before)) {
      last = cpu;
      ++count;
    }
  const Environment none("OMP_NUM_THREADS", nullptr);
  const RankBinding all = find_binding(test_world());
  CHECK(static_cast<int>(all.processors.size()) == count);
  CHECK(all.processors.back() == last);
  CHECK(all.cores == std::ssize(Topology::of_this_node().locality(all.processors).cores));
  CHECK(all.ranks_on_node == test_world().size());  // tests run on one node
  CHECK(all.rank_on_node == test_world().rank());
  CHECK_FALSE(all.host.empty());
  CHECK_FALSE(all.threads_from_environment);
  // The ranks of a test are not bound: each may run on the cores of all others.
  CHECK(all.sharing.ranks == test_world().size());
  CHECK(all.sharing.threads == test_world().size() * all.threads);
  CHECK(all.sharing.cores == all.cores);
  CHECK(all.node_cores == all.cores);

  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  const RankBinding bound = find_binding(test_world());
  CHECK(bound.processors == std::vector<int>{last});
  CHECK(bound.cores == 1);
  CHECK(bound.memory_domains <= 1);
  CHECK(bound.sharing.ranks == test_world().size());  // all on the same processor
  CHECK(bound.threads == 1);
  CHECK(contains(bound.describe(), fmt::format("processors {}; 1 core, 1 thread; rank ", last)));
  {
    const Environment seven("OMP_NUM_THREADS", "7");
    const RankBinding told = find_binding(test_world());
    CHECK(told.threads == 7);
    CHECK(told.threads_from_environment);
    CHECK(contains(told.describe(), "7 threads (OMP_NUM_THREADS)"));
  }
  REQUIRE(::sched_setaffinity(0, sizeof before, &before) == 0);
}

TEST_CASE("machines are described by what their system says") {
  const TempDirectory directory;
  put_contents(directory / "meminfo",
               "MemTotal:       32 kB\nMemFree: 1 kB\n"
               "HugePages_Total:       3\nHugepagesize:       2048 kB\n");
  SUBCASE("x86-64") {
    put_contents(directory / "cpuinfo",
                 "processor\t: 0\nmodel\t\t: 143\nmodel name\t: Some CPU @ 2.0GHz\n"
                 "flags\t\t: fpu avx2 fma avx512f avx512_bf16 amx_tile\n\n"
                 "processor\t: 1\nmodel name\t: Another CPU\n");
    const NodeDescription node = describe_node(directory.path(), directory.path());
    CHECK(node.isa ==
          std::vector<std::string>{"avx2", "fma", "avx512f", "avx512_bf16", "amx_tile"});
    CHECK(node.memory_bytes == 32 * 1024);
    CHECK(node.shm_free_bytes > 0);
    CHECK(node.huge_pages == 3);
    CHECK(node.huge_page_bytes == 2048 * 1024);
    CHECK(node.page_bytes >= 4096);
  }
  SUBCASE("aarch64") {
    put_contents(directory / "cpuinfo",
                 "processor\t: 0\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x46\n"
                 "CPU part\t: 0x001\n");
    const NodeDescription node = describe_node(directory.path(), directory / "none");
    CHECK(node.isa == std::vector<std::string>{"asimd", "sve"});
    CHECK(node.shm_free_bytes == 0);
  }
  SUBCASE("the kernel's choice of huge pages") {
    std::filesystem::create_directories(directory / "kernel/mm/transparent_hugepage");
    put_contents(directory / "kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    CHECK(describe_node(directory.path(), directory.path(), directory.path())
              .transparent_huge_pages == "madvise");
  }
  SUBCASE("a system that says nothing") {
    const NodeDescription node =
        describe_node(directory / "none", directory / "none", directory / "none");
    CHECK(node.transparent_huge_pages.empty());
    CHECK(node.isa.empty());
    CHECK(node.memory_bytes == 0);
  }
  SUBCASE("this one") {
    const NodeDescription node = describe_node();
    CHECK(node.memory_bytes > 0);
  }
}

}  // namespace halomesh
