// SPDX-License-Identifier: Apache-2.0
// The system's limits on the memory of this process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace halomesh {

/// The bytes that may still be allocated; empty if there is no limit.
struct MemoryLimits {
  /// The limit of this process's control groups, which all processes of a group share. Cached files
  /// do not count as used.
  std::optional<std::int64_t> group_bytes;
  /// The limit of this process alone, as set by ulimit -d.
  std::optional<std::int64_t> process_bytes;
  /// The limit of its address space, as set by ulimit -v; reserved addresses count as well.
  std::optional<std::int64_t> address_bytes;
};

/// Reads self/cgroup and self/status in `proc`, and the groups, of either version, in `groups`.
/// Local.
MemoryLimits memory_limits(const std::filesystem::path& proc = "/proc",
                           const std::filesystem::path& groups = "/sys/fs/cgroup");

}  // namespace halomesh
