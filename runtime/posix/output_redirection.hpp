// SPDX-License-Identifier: Apache-2.0
// Temporary redirection of a process's output to a file.
#pragma once

#include <filesystem>

#include "runtime/posix/descriptor.hpp"

namespace halomesh {

/// While this object exists, all standard output and error of this process are appended to a file,
/// which several processes may share. Not for use while other threads print.
class OutputRedirection {
 public:
  /// Throws Error naming the file if it cannot be opened.
  explicit OutputRedirection(const std::filesystem::path& file);
  OutputRedirection(const OutputRedirection&) = delete;
  OutputRedirection& operator=(const OutputRedirection&) = delete;
  ~OutputRedirection();

 private:
  Descriptor output_, error_;  ///< the original descriptors
};

}  // namespace halomesh
