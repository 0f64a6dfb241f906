// What every sample must fulfil, and how it is said when it does not.
// Knows nothing of files or formats.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runtime/block_writer.hpp"
#include "shape.hpp"

namespace halomesh {

/// Bytes of the voxels of one sample.
inline std::int64_t voxel_bytes(const Shape& shape) {
  return shape.volume() * static_cast<std::int64_t>(sizeof(std::int16_t));
}

/// Throws Error, which starts with `where`, unless every target is a finite number.
void check_targets(std::span<const float> targets, const std::string& where);

/// Looks for voxels below 0 in a sample that comes piece by piece.
class NegativeSearch {
 public:
  /// As a VoxelSink does.
  void take(std::int64_t offset, std::span<const std::byte> bytes);
  /// The first voxel that is below 0, by its index in the sample.
  const std::optional<BlockWriter::Voxel>& found() const { return found_; }

 private:
  std::byte last_{};  // of the piece before
  std::optional<BlockWriter::Voxel> found_;
};

/// Throws Error, which starts with `where`, when `negative` is a voxel: no count is below 0. Its
/// index is one in a block of shape `block` whose first voxel is `origin` (d,h,w,c) of the sample.
void check_voxels(const std::optional<BlockWriter::Voxel>& negative, const Shape& block,
                  const std::array<std::int64_t, 4>& origin, const std::string& where);

}  // namespace halomesh
