// SPDX-License-Identifier: Apache-2.0
// A file that is mapped into memory.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "runtime/posix/descriptor.hpp"

namespace halomesh {

/// An open file whose beginning map() maps for reading. Move-only.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(Descriptor file) : file_(std::move(file)) {}
  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  }

  const Descriptor& file() const { return file_; }
  /// Maps the first `count` bytes, which must exist; call it once. False, with errno set, if the
  /// file system does not support it.
  bool map(std::int64_t count) {
    if (count == 0) return true;
    const auto size = static_cast<std::size_t>(count);
    void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file_.get(), 0);
    if (memory == MAP_FAILED) return false;
    bytes_ = {static_cast<std::byte*>(memory), size};
    return true;
  }
  /// The mapped bytes.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  Descriptor file_;
  std::span<std::byte> bytes_;
};

}  // namespace halomesh
