// SPDX-License-Identifier: Apache-2.0
// The limits of the system on the memory of this process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace halomesh {

/// Bytes that may still be allocated; empty where there is no limit.
struct MemoryLimits {
  /// Of the control groups that this process is in: all processes of the group share it. Cached
  /// files do not count as used.
  std::optional<std::int64_t> group_bytes;
  /// Of this process alone, as set by ulimit -d.
  std::optional<std::int64_t> process_bytes;
  /// Of its address space, as set by ulimit -v; what is only reserved counts as well.
  std::optional<std::int64_t> address_bytes;
};

/// Local. Reads self/cgroup and self/status in `proc`, and the groups, of either version, in
/// `groups`.
MemoryLimits memory_limits(const std::filesystem::path& proc = "/proc",
                           const std::filesystem::path& groups = "/sys/fs/cgroup");

}  // namespace halomesh
