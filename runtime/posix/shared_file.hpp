// SPDX-License-Identifier: Apache-2.0
// A file of fixed size that several processes write, each its own bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace halomesh {

/// An existing file, opened for writing. Processes may write at once if their bytes are disjoint.
class SharedFile {
 public:
  /// Throws Error naming the file.
  explicit SharedFile(std::filesystem::path path);
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  ~SharedFile();

  /// Writes all bytes at `offset` from the beginning. Throws Error naming the file.
  void write(std::int64_t offset, std::span<const std::byte> bytes);
  /// Flushes this process's writes to disk and closes the file. Throws Error if a write has failed.
  void close();

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace halomesh
