// SPDX-License-Identifier: Apache-2.0
// Limits of control groups, from files like those of Linux, and of this process.
#include "runtime/posix/memory_limits.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <fstream>
#include <string>

#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& file, const std::string& contents) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << contents;
}

TEST_CASE("memory limits: the group that has least left, cached files do not count") {
  const TempDirectory directory;
  const fs::path proc = directory / "proc", groups = directory / "groups";
  const auto left = [&] { return memory_limits(proc, groups).group_bytes; };
  CHECK_FALSE(left());  // a system that says nothing
  SUBCASE("version 2") {
    put(proc / "self/cgroup", "0::/jobs/7/step\n");
    put(groups / "jobs/7/step/memory.max", "max\n");
    put(groups / "jobs/7/step/memory.current", "100\n");
    CHECK_FALSE(left());
    put(groups / "jobs/7/memory.max", "5000\n");
    put(groups / "jobs/7/memory.current", "3000\n");
    put(groups / "jobs/7/memory.stat", "anon 900\nfile 2000\ninactive_file 700\nactive_file 50\n");
    CHECK(left() == 2750);
    put(groups / "memory.max", "9000\n");
    put(groups / "memory.current", "8000\n");
    CHECK(left() == 1000);
    put(groups / "memory.current", "9500\n");
    CHECK(left() == 0);
  }
  SUBCASE("version 1, in a container that does not see the host's path") {
    put(proc / "self/cgroup", "12:cpuset:/docker/a\n4:memory:/docker/a\n0::/\n");
    put(groups / "memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(groups / "memory/memory.usage_in_bytes", "4096\n");
    CHECK_FALSE(left());
    put(groups / "memory/memory.limit_in_bytes", "10000\n");
    put(groups / "memory/memory.stat", "total_inactive_file 90\ntotal_active_file 6\n");
    CHECK(left() == 6000);
  }
}

TEST_CASE("memory limits: what is left of a process's own") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  const TempDirectory directory;
  put(directory / "self/status", "Name:\tx\nVmSize:\t    1000 kB\nVmData:\t 400 kB\n");
  const auto left = [&] { return memory_limits(directory.path(), directory.path()).address_bytes; };
  if (before.rlim_cur == RLIM_INFINITY) CHECK_FALSE(left());
  const rlimit limit{rlim_t{1} << 46, before.rlim_max};  // more than sanitizers reserve
  REQUIRE(::setrlimit(RLIMIT_AS, &limit) == 0);
  const auto found = left();
  REQUIRE(::setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(found == (std::int64_t{1} << 46) - 1000 * 1024);
}

}  // namespace
}  // namespace halomesh
