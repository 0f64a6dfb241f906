// SPDX-License-Identifier: Apache-2.0
// Shares an open file, which may have no name, with other processes of the node.
#pragma once

#include <cstdint>
#include <iosfwd>

#include "runtime/posix/descriptor.hpp"

namespace halomesh {

/// A file identified by process and descriptor; valid while that process has it open.
struct ProcessFile {
  int process = 0, descriptor = -1;     ///< -1: no file
  std::uint64_t device = 0, inode = 0;  ///< its identity on the node

  /// Identifies a file of this process. Throws Error if fstat() fails.
  static ProcessFile of(const Descriptor& file);
  /// Opens the file for reading through /proc. Returns no descriptor if this is not permitted or
  /// finds another file: in another PID namespace (a container), another process may have this
  /// number.
  Descriptor open() const;
};

std::ostream& operator<<(std::ostream& out, const ProcessFile& file);
std::istream& operator>>(std::istream& in, ProcessFile& file);

}  // namespace halomesh
