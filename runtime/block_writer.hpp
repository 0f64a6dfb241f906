// Puts the voxels of one sample, which come piece by piece, where a block of it is to be.
// Knows nothing of files or records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "shape.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// One sample on its way into the block block.span of it: as counts where the block is of int16, as
/// their log(1+x) where it is of fp32. The memory of `block` must outlive this object.
class BlockWriter {
 public:
  BlockWriter(const Shape& sample, AnyView block)
      : sample_(sample), block_(block), all_channels_(block.span.extent(kC) == sample.c) {}

  /// Takes int16 little-endian voxels from byte `offset` of the sample (d,h,w,c order) on; pieces
  /// come in order and may end within a voxel.
  void take(std::int64_t offset, std::span<const std::byte> bytes);

  struct Voxel {
    std::int64_t index = 0;  ///< in the sample, in d,h,w,c order
    std::int16_t value = 0;
  };
  /// The first voxel of the block that is below 0, which no count is.
  const std::optional<Voxel>& negative() const { return negative_; }

 private:
  void take_voxels(std::int64_t first, std::span<const std::byte> bytes);
  void place(std::int64_t to, std::int64_t index, const std::byte* from, std::int64_t count);

  Shape sample_;
  AnyView block_;
  bool all_channels_;
  std::optional<std::byte> half_;  // of a voxel whose other byte comes with the next piece
  std::optional<Voxel> negative_;
};

}  // namespace halomesh
