// SPDX-License-Identifier: Apache-2.0
// Checks that every sample must pass, and their messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runtime/data/block_writer.hpp"
#include "shape.hpp"

namespace halomesh {

/// Bytes of the voxels of one sample.
inline std::int64_t voxel_bytes(const Shape& shape) {
  return shape.volume() * static_cast<std::int64_t>(sizeof(std::int16_t));
}

/// Throws Error, starting with `where`, unless every target is finite.
void check_targets(std::span<const float> targets, const std::string& where);

/// Finds negative voxels in a sample that arrives in pieces.
class NegativeSearch {
 public:
  /// Takes the next piece, as a VoxelSink does.
  void take(std::int64_t offset, std::span<const std::byte> bytes);
  /// The first negative voxel, by its index in the sample.
  const std::optional<BlockWriter::Voxel>& found() const { return found_; }

 private:
  std::byte last_{};  // of the previous piece
  std::optional<BlockWriter::Voxel> found_;
};

/// Throws Error, starting with `where`, if there is a negative voxel. Its index is relative to a
/// block of shape `block` whose first voxel is `origin` (d,h,w,c) of the sample.
void check_voxels(const std::optional<BlockWriter::Voxel>& negative, const Shape& block,
                  const std::array<std::int64_t, 4>& origin, const std::string& where);

}  // namespace halomesh
