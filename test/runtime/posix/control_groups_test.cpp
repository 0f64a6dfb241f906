// SPDX-License-Identifier: Apache-2.0
// Quotas of processor time, from files like those of Linux.
#include "runtime/posix/control_groups.hpp"

#include <doctest/doctest.h>

#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

TEST_CASE("processor quota: the least of the group and those around it") {
  const TempDirectory directory;
  const fs::path proc = directory / "proc", groups = directory / "groups";
  const auto put = [](const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    put_contents(file, text);
  };
  const auto quota = [&] { return processor_quota(proc, groups); };
  CHECK_FALSE(quota());  // a system that says nothing
  SUBCASE("version 2") {
    put(proc / "self/cgroup", "0::/jobs/7\n");
    put(groups / "jobs/7/cpu.max", "max 100000\n");
    CHECK_FALSE(quota());
    put(groups / "jobs/cpu.max", "250000 100000\n");
    CHECK(quota() == 2.5);
    put(groups / "jobs/7/cpu.max", "50000 100000\n");
    CHECK(quota() == 0.5);
  }
  SUBCASE("version 1, with the controllers mounted together") {
    put(proc / "self/cgroup", "4:memory:/a\n2:cpu,cpuacct:/docker/a\n0::/\n");
    put(groups / "cpu/cpu.cfs_quota_us", "-1\n");
    put(groups / "cpu/cpu.cfs_period_us", "100000\n");
    CHECK_FALSE(quota());
    put(groups / "cpu/cpu.cfs_quota_us", "150000\n");
    CHECK(quota() == 1.5);
  }
}

}  // namespace
}  // namespace halomesh
