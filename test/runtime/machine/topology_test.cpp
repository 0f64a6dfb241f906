// SPDX-License-Identifier: Apache-2.0
// The cores and NUMA nodes of sets of processors, on synthetic nodes of hwloc.
#include "runtime/machine/topology.hpp"

#include <doctest/doctest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "error.hpp"
#include "test/harness/skip.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

std::vector<int> range(int begin, int end) {
  std::vector<int> numbers(static_cast<std::size_t>(end - begin));
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

}  // namespace

TEST_CASE("a node of two sockets with two hardware threads per core") {
  const Topology node =
      Topology::synthetic("package:2 numa:1 l3:1(size=33554432) l2:8(size=1048576) core:1 pu:2");
  CHECK(node.packages() == 2);
  CHECK(node.cores() == 16);
  CHECK(node.numa_nodes() == 2);
  const Locality all = node.locality(range(0, 32));
  CHECK(all.cores.size() == 16);
  CHECK(all.numa_nodes == std::vector<int>{0, 1});
  CHECK(all.memory_domains == 2);
  const Locality second = node.locality(range(16, 32));
  CHECK(second.cores == std::vector<int>{16, 18, 20, 22, 24, 26, 28, 30});
  CHECK(second.numa_nodes == std::vector<int>{1});
  CHECK(second.memory_domains == 1);
  CHECK(second.l2.bytes == 1 << 20);
  CHECK(second.l2.cores == 1);
  CHECK(second.l3.bytes == 32 << 20);
  CHECK(second.l3.cores == 8);
  // The second threads of two cores, and a processor that is not there.
  CHECK(node.locality({3, 5, 99}).cores == std::vector<int>{2, 4, 99});
}

TEST_CASE("a node of four core groups, each with its memory and second-level cache") {
  const Topology node = Topology::synthetic("numa:4 l2:1(size=8388608) core:12 pu:1");
  CHECK(node.cores() == 48);
  const Locality group = node.locality(range(12, 24));
  CHECK(group.cores == range(12, 24));
  CHECK(group.numa_nodes == std::vector<int>{1});
  CHECK(group.l2.bytes == 8 << 20);
  CHECK(group.l2.cores == 12);
  CHECK(group.l3.bytes == 0);
  CHECK(node.locality(range(0, 48)).memory_domains == 4);
  CHECK(node.locality(range(11, 13)).numa_nodes == std::vector<int>{0, 1});
}

TEST_CASE("two cores of one virtual socket") {
  const Topology node =
      Topology::synthetic("package:1 numa:1 l3:1(size=272629760) l2:2(size=2097152) core:1 pu:1");
  const Locality all = node.locality({0, 1});
  CHECK(all.cores == std::vector<int>{0, 1});
  CHECK(all.numa_nodes == std::vector<int>{0});
  CHECK(all.memory_domains == 1);
  CHECK(all.l2.bytes == 2 << 20);
  CHECK(all.l3.cores == 2);
}

TEST_CASE("two kinds of memory at the same cores are one domain") {
  const Topology node = Topology::synthetic("package:2 [numa] [numa] core:4 pu:1");
  const Locality first = node.locality(range(0, 4));
  CHECK(first.numa_nodes.size() == 2);
  CHECK(first.memory_domains == 1);
  CHECK(node.locality(range(0, 8)).memory_domains == 2);
}

TEST_CASE("no processors, and nodes that cannot be") {
  CHECK(Topology::synthetic("core:2 pu:1").locality({}).cores.empty());
  CHECK_THROWS_AS(Topology::synthetic("two sockets, please"), Error);
}

TEST_CASE("memory is remote when none of it, or spread memory when some, is away") {
  const std::vector<int> near = {1, 2};
  CHECK_FALSE(is_remote({true, false, {0, 1, 2, 3}}, near));  // the nearest allowed one is used
  CHECK(is_remote({true, false, {0, 3}}, near));
  CHECK_FALSE(is_remote({true, true, {1, 2}}, near));
  CHECK(is_remote({true, true, {0, 1, 2, 3}}, near));
  CHECK_FALSE(is_remote({false, false, {0}}, near));
  CHECK_FALSE(is_remote({true, false, {0}}, {}));
}

TEST_CASE("the cores of this node are those that the kernel lists") {
  const std::filesystem::path cpus = "/sys/devices/system/cpu";
  std::map<int, int> first_of_core;  // by processor: the first processor of its core
  for (int cpu = 0; cpu < 4096; ++cpu) {
    std::ifstream siblings(cpus / fmt::format("cpu{}", cpu) / "topology/thread_siblings_list");
    if (int first = 0; siblings >> first) first_of_core[cpu] = first;
  }
  if (first_of_core.empty()) return test::skip_case("the kernel does not list cores in /sys");
  const Topology node = Topology::of_this_node();
  std::vector<int> processors, cores;
  for (const auto& [cpu, first] : first_of_core) {
    CHECK(node.locality({cpu}).cores == std::vector<int>{first});
    processors.push_back(cpu);
    if (cpu == first) cores.push_back(cpu);
  }
  CHECK(node.cores() == std::ssize(cores));
  CHECK(node.locality(processors).cores == cores);
}

TEST_CASE("the memory policy is what this thread has set") {
  const Topology node = Topology::of_this_node();
  const MemoryPolicy before = node.memory_policy();
  const unsigned long first_node = 1;
  if (!before.known || ::syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &first_node, 64UL) != 0)
    return test::skip_case("this system does not let programs choose NUMA nodes");
  const MemoryPolicy interleaved = node.memory_policy();
  REQUIRE(::syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0UL) == 0);
  CHECK(interleaved.known);
  CHECK(interleaved.spread);
  CHECK(interleaved.nodes == std::vector<int>{0});
  CHECK_FALSE(node.memory_policy().spread);
  CHECK(node.memory_policy().nodes == before.nodes);
}

TEST_CASE("the CPU model is the vendor's name or the Arm part") {
  const TempDirectory directory;
  const auto model = [&](const std::string& infos) {
    put_contents(directory / "node.xml",
                 "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                 "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">"
                 "<object type=\"Machine\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
                 "allowed_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\" "
                 "allowed_nodeset=\"0x1\"><object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x1\" "
                 "complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\"/>"
                 "<object type=\"Package\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
                 "nodeset=\"0x1\" complete_nodeset=\"0x1\">" +
                     infos +
                     "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
                     "nodeset=\"0x1\" complete_nodeset=\"0x1\"/></object></object></topology>\n");
    ::setenv("HWLOC_XMLFILE", (directory / "node.xml").c_str(), 1);
    std::string found = Topology::of_this_node().cpu_model();
    ::unsetenv("HWLOC_XMLFILE");
    return found;
  };
  CHECK(model("<info name=\"CPUModel\" value=\"Some CPU @ 2.0GHz\"/>") == "Some CPU @ 2.0GHz");
  CHECK(model("<info name=\"CPUImplementer\" value=\"0x46\"/>"
              "<info name=\"CPUPart\" value=\"0x001\"/>") == "Arm implementer 0x46 part 0x001");
  CHECK(model("").empty());
  CHECK(Topology::synthetic("core:2 pu:1").cpu_model().empty());
}

}  // namespace halomesh
