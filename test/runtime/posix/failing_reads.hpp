// SPDX-License-Identifier: Apache-2.0
// Reads that fail, as on a file system that is ill, though nothing is wrong with the file.
#pragma once

#include <cstdint>
#include <string>

namespace halomesh {

/// While this object exists, one read of files whose paths contain `name` fails with
/// `error_number`: that after `spared` others, by any library. One at a time; not for threads.
class FailingRead {
 public:
  FailingRead(const std::string& name, int error_number, std::int64_t spared);
  FailingRead(const FailingRead&) = delete;
  FailingRead& operator=(const FailingRead&) = delete;
  ~FailingRead();
  /// Whether there were so many reads.
  bool has_failed() const;
};

}  // namespace halomesh
