// SPDX-License-Identifier: Apache-2.0
// Copies the voxels of a sample, which arrive in pieces, to a block in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "partition/box_runs.hpp"
#include "shape.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Fills the block block.span of one sample: with counts if the block is int16, with their log(1+x)
/// if it is fp32. The memory of `block` must outlive this object.
class BlockWriter {
 public:
  BlockWriter(const Shape& sample, AnyView block) : block_(block), runs_(sample, block.span) {}

  /// Takes the next piece of the sample: int16 little-endian voxels in d,h,w,c order, starting at
  /// byte `offset`. Pieces arrive in order and may end within a voxel.
  void take(std::int64_t offset, std::span<const std::byte> bytes);

  struct Voxel {
    std::int64_t index = 0;  ///< in the sample, in d,h,w,c order
    std::int16_t value = 0;
  };
  /// The first negative voxel of the block; valid counts are not negative.
  const std::optional<Voxel>& negative() const { return negative_; }

 private:
  void take_voxels(std::int64_t first, std::span<const std::byte> bytes);
  void place(std::int64_t to, std::int64_t index, const std::byte* from, std::int64_t count);

  AnyView block_;
  BoxRuns runs_;
  std::optional<std::byte> half_;  // of a voxel whose other byte comes with the next piece
  std::optional<Voxel> negative_;
};

}  // namespace halomesh
