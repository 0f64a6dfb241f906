// SPDX-License-Identifier: Apache-2.0
// What a process prints, for a while, in a file instead.
#pragma once

#include <filesystem>

#include "runtime/posix/descriptor.hpp"

namespace halomesh {

/// While this object exists, standard output and error of this process, whoever writes to them, are
/// appended to a file, which several processes may share. Not for use while other threads print.
class OutputRedirection {
 public:
  /// Throws Error naming the file if it cannot be opened.
  explicit OutputRedirection(const std::filesystem::path& file);
  OutputRedirection(const OutputRedirection&) = delete;
  OutputRedirection& operator=(const OutputRedirection&) = delete;
  ~OutputRedirection();

 private:
  Descriptor output_, error_;  ///< what they were before
};

}  // namespace halomesh
