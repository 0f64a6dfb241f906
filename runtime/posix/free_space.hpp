// SPDX-License-Identifier: Apache-2.0
// What is still free of memory and of file systems, for whatever plans to take some.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>

namespace halomesh {

struct FreeSpace {
  std::int64_t bytes = std::numeric_limits<std::int64_t>::max();  ///< this: unknown
  bool is_memory = false;  ///< processes share it with what they allocate
  bool in_group = false;   ///< a control group has less left than the node or the disk

  /// For messages: "M are available", "M are left in the control group".
  const char* text() const { return in_group ? "are left in the control group" : "are available"; }
};

/// Of this node's memory, without swapping, or of the control groups that this process is in.
/// Local; `proc` and `groups` are a test's.
FreeSpace free_memory(const std::filesystem::path& proc = "/proc",
                      const std::filesystem::path& groups = "/sys/fs/cgroup");

/// Of the file system of an open directory, for this user; a RAM disk has no more than `memory`.
/// Throws Error naming `path`. Local.
FreeSpace free_space(int directory, const std::filesystem::path& path,
                     const FreeSpace& memory = free_memory());
/// The same of an existing directory.
FreeSpace free_space(const std::filesystem::path& path, const FreeSpace& memory = free_memory());

}  // namespace halomesh
