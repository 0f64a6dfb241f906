// SPDX-License-Identifier: Apache-2.0
// NumPy's files of one fp32 array of five axes, N,C,D,H,W.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/hdf5/npy_array.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// An array to read from, block by block.
class NpyFile {
 public:
  /// Throws Error unless the file has fp32 with five axes.
  explicit NpyFile(const std::filesystem::path& path);

  std::int64_t samples() const { return array_.extents()[0]; }
  Shape shape() const {
    const Extents& n = array_.extents();
    return {n[1], n[2], n[3], n[4]};
  }
  /// Fills the first view.batch samples from number `first` on.
  void read(std::int64_t first, View view) const;

 private:
  NpyArray array_;
};

/// The bytes before the values of such an array.
std::string npy_header(std::int64_t samples, const Shape& shape);

}  // namespace halomesh
