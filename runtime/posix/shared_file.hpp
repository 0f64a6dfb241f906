// SPDX-License-Identifier: Apache-2.0
// A file of fixed size to which several processes write, each its own bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace halomesh {

/// An open file that exists already. Processes may write at once where their bytes are disjoint.
class SharedFile {
 public:
  /// Throws Error naming the file.
  explicit SharedFile(std::filesystem::path path);
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  ~SharedFile();

  /// Writes all bytes at `offset` from the beginning. Throws Error naming the file.
  void write(std::int64_t offset, std::span<const std::byte> bytes);
  /// Puts what this process has written on disk and closes. Throws Error where a write has failed.
  void close();

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace halomesh
