// SPDX-License-Identifier: Apache-2.0
// What is free of memory and on RAM disks: the least of the node, the disk and the control group.
#include "runtime/posix/free_space.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "test/harness/full_disk.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

/// A node with 1000 KiB of free memory, and a group that has `group` bytes left.
struct FakeNode {
  TempDirectory directory;
  explicit FakeNode(const std::string& group) {
    for (const char* name : {"proc/self", "groups/job"}) fs::create_directories(directory / name);
    put_contents(directory / "proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    1000 kB\n");
    put_contents(directory / "proc/self/cgroup", "0::/job\n");
    put_contents(directory / "groups/job/memory.max", group);
    put_contents(directory / "groups/job/memory.current", "0");
  }
  FreeSpace memory() const { return free_memory(directory / "proc", directory / "groups"); }
};

TEST_CASE("free memory: the node's, or the control group's where that is less") {
  CHECK(FakeNode("max").memory().bytes == 1000 * 1024);
  CHECK_FALSE(FakeNode("99999999").memory().in_group);
  const FreeSpace left = FakeNode("300000").memory();
  CHECK(left.bytes == 300000);
  CHECK(left.text() == std::string("are left in the control group"));
  CHECK(free_memory().bytes > 0);
  const TempDirectory nothing;
  CHECK(free_memory(nothing.path(), nothing.path()).bytes > std::int64_t{1} << 60);
}

TEST_CASE("free memory: the limit from which a group is slowed down counts as well") {
  const FakeNode node("900000");
  put_contents(node.directory / "groups/job/memory.high", "200000");
  CHECK(node.memory().bytes == 200000);
}

TEST_CASE("free space: a RAM disk has no more than the memory that is free") {
  const TempDirectory directory;
  fs::create_directories(directory / "disk");
  const SmallFileSystem disk(directory / "disk", 1 << 20);
  if (!disk.mounted()) return;
  const auto free = [&](std::int64_t memory, bool in_group) {
    return free_space(directory / "disk", {memory, true, in_group});
  };
  CHECK(free(1 << 19, true).bytes == 1 << 19);
  CHECK(free(1 << 19, true).text() == std::string("are left in the control group"));
  CHECK(free(1 << 21, true).bytes == 1 << 20);
  CHECK(free(1 << 21, true).text() == std::string("are available"));
  CHECK_FALSE(free(1 << 21, true).is_memory);
  CHECK(contains(error_of([&] { (void)free_space(directory / "none"); }), "none"));
}

}  // namespace
}  // namespace halomesh
