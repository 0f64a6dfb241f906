// SPDX-License-Identifier: Apache-2.0
// NumPy's files of one fp32 array of five axes, N,C,D,H,W.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

#include "src/nn/tensor.hpp"

namespace halomesh {

/// An array to read from, block by block.
class NpyFile {
 public:
  /// Throws Error unless the file has little-endian fp32 in C order with five axes.
  explicit NpyFile(std::filesystem::path path);

  std::int64_t samples() const { return extents_[0]; }
  Shape shape() const { return {extents_[1], extents_[2], extents_[3], extents_[4]}; }
  /// Fills the first view.batch samples from number `first` on.
  void read(std::int64_t first, View view) const;

 private:
  std::filesystem::path path_;
  std::array<std::int64_t, 5> extents_{};
  std::int64_t begin_ = 0;  // the place of the first value
};

/// The bytes before the values of such an array.
std::string npy_header(std::int64_t samples, const Shape& shape);

}  // namespace halomesh
