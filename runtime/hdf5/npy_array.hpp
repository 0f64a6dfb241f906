// SPDX-License-Identifier: Apache-2.0
// The array in a .npy file of NumPy: its header, and blocks of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "runtime/hdf5/hdf5_types.hpp"

namespace halomesh {

/// The array of one file, of which read() reads no more than a block. A value type.
class NpyArray {
 public:
  /// Reads the header, of version 1, 2 or 3. Throws Error naming the file and what it holds instead
  /// of numbers that Hdf5Type has, or ReadError.
  explicit NpyArray(const std::filesystem::path& path);

  Hdf5Type type() const { return type_; }
  /// The shape as NumPy shows it, slowest axis first whatever the order in the file.
  const Extents& extents() const { return extents_; }
  /// The position of the first element in the file, in bytes.
  std::int64_t offset() const { return offset_; }
  /// Reads a block into `values`: dense, slowest axis first, in this host's byte order. Counts the
  /// bytes read. Throws Error if the file ends before them, or ReadError.
  void read(const Slab& block, std::span<std::byte> values) const;

 private:
  void parse(std::string_view header);
  void parse_type(std::string_view text);

  std::filesystem::path path_;
  Hdf5Type type_ = Hdf5Type::kFloat;
  Extents extents_;
  std::int64_t offset_ = 0;
  bool is_swapped_ = false;  // the other byte order
  bool is_fortran_ = false;  // the first axis is the fastest
};

}  // namespace halomesh
