// How a process tells others of its node about an open file of its own, which may have no name.
// Knows nothing of what the file holds or of how they are told.
#pragma once

#include <cstdint>
#include <iosfwd>

#include "runtime/descriptor.hpp"

namespace halomesh {

/// A file by process and descriptor, valid while that process has it open; as text, four numbers.
struct ProcessFile {
  int process = 0, descriptor = -1;     ///< -1: no file
  std::uint64_t device = 0, inode = 0;  ///< what tells it from all others of the node

  /// A file of this process. Throws Error when it cannot be looked at.
  static ProcessFile of(const Descriptor& file);
  /// Opens it for reading, through /proc. No descriptor when this process may not, or when what is
  /// found is another file: in another name space, as in a container, another process may have
  /// this number.
  Descriptor open() const;
};

std::ostream& operator<<(std::ostream& out, const ProcessFile& file);
std::istream& operator>>(std::istream& in, ProcessFile& file);

}  // namespace halomesh
