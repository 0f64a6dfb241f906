// SPDX-License-Identifier: Apache-2.0
// Free memory and free space of file systems, to check before using them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>

namespace halomesh {

struct FreeSpace {
  std::int64_t bytes = std::numeric_limits<std::int64_t>::max();  ///< the maximum: unknown
  bool is_memory = false;  ///< processes share it with their other allocations
  bool in_group = false;   ///< a control group has less left than the node or the disk

  /// Words for messages: "M are available", "M are left in the control group".
  const char* text() const { return in_group ? "are left in the control group" : "are available"; }
};

/// The free memory of this node, without swapping, or of this process's control groups. Local;
/// tests pass `proc` and `groups`.
FreeSpace free_memory(const std::filesystem::path& proc = "/proc",
                      const std::filesystem::path& groups = "/sys/fs/cgroup");

/// The free space of the file system of an open directory, for this user; a RAM disk has at most
/// `memory`. Throws Error naming `path`. Local.
FreeSpace free_space(int directory, const std::filesystem::path& path,
                     const FreeSpace& memory = free_memory());
/// The free space of the file system of an existing directory.
FreeSpace free_space(const std::filesystem::path& path, const FreeSpace& memory = free_memory());

}  // namespace halomesh
