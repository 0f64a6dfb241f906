// SPDX-License-Identifier: Apache-2.0
// The targets to which the sparse data gradient adds a tile: an fp32 gradient in place, or a bf16
// gradient that is rounded once, while voxels to which other tiles still add wait in fp32 at its
// edges.
#pragma once

#include <algorithm>
#include <cstdint>

#include "shape.hpp"
#include "src/nn/kernels/isa.hpp"
#include "src/nn/kernels/lanes.hpp"
#include "src/nn/kernels/sparse_tile.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {
namespace sparse {

/// A block of one sample: (d, h, w, i) is at data[d * step[0] + h * step[1] + w * step[2] + i].
/// `corner` is the place in the block of tap 0 of the convolution's window for tap 0 of the pooling
/// window of the first pooled voxel; it may be negative. Voxels outside the block are not written.
template <class S>
struct Target {
  S* data = nullptr;
  Spatial step{}, extents{}, corner{};
};

/// The common geometry of all tiles of a plane. A tile is one pooled plane deep.
struct TileWindows {
  TileLayout layout;
  Spatial kernel{}, pool{};
  Spatial pooled{};  ///< extents of the pooled plane
};

/// The voxels under a tile: the place of the first one in the block, and which are inside.
struct UnderTile {
  Spatial at{}, extents{};
  std::int64_t lo = 0, hi = 0;                     ///< range along w that is inside the block
  bool after_row = false, after_column = false;    ///< there are tiles before it along h, w
  bool before_row = false, before_column = false;  ///< ... and after it

  template <class S>
  UnderTile(const TileWindows& windows, const Tile& tile, const Target<S>& target)
      : extents(windows.layout.under(tile.extents)) {
    for (std::size_t a = 0; a < 3; ++a) at[a] = target.corner[a] + tile.first[a] * windows.pool[a];
    lo = std::clamp<std::int64_t>(-at[2], 0, extents[2]);
    hi = std::clamp(target.extents[2] - at[2], lo, extents[2]);
    after_row = tile.first[1] > 0;
    after_column = tile.first[2] > 0;
    before_row = tile.first[1] + tile.extents[1] < windows.pooled[1];
    before_column = tile.first[2] + tile.extents[2] < windows.pooled[2];
  }
  template <class S>
  bool is_inside(std::int64_t d, std::int64_t h, const Target<S>& target) const {
    return at[0] + d >= 0 && at[0] + d < target.extents[0] && at[1] + h >= 0 &&
           at[1] + h < target.extents[1];
  }
};

/// Adds tiles in place: the gradient itself holds the sums.
class SumsInPlace {
 public:
  /// Nothing was added yet to the planes `unwritten` under a tile of this plane.
  SumsInPlace(const TileWindows& windows, const Target<float>& target, const Range& unwritten)
      : windows_(windows), target_(target), unwritten_(unwritten) {}

  /// Reads one vector of channels of the voxels under a tile; zeros where nothing was added before
  /// or outside the block.
  void load(const Tile& tile, std::int64_t channel, float* copy) const {
    const UnderTile under(windows_, tile, target_);
    for_each_row(under, channel, [&](std::int64_t d, std::int64_t h, const float* from) {
      float* const row = copy + d * windows_.layout.plane_step + h * windows_.layout.row_step;
      const bool fresh = d >= unwritten_.lo && d < unwritten_.hi &&
                         h >= (under.after_row ? windows_.kernel[1] - 1 : 0);
      const std::int64_t column = under.after_column ? windows_.kernel[2] - 1 : 0;
      const std::int64_t end = from == nullptr ? under.lo
                               : fresh         ? std::clamp(column, under.lo, under.hi)
                                               : under.hi;
      std::fill_n(row, under.lo * kVector, 0.0F);
      for (std::int64_t w = under.lo; w < end; ++w)
        sparse::store(sparse::load(from + w * target_.step[2]), row + w * kVector);
      std::fill_n(row + end * kVector, (under.extents[2] - end) * kVector, 0.0F);
    });
  }
  void store(const Tile& tile, std::int64_t channel, const float* copy) const {
    const UnderTile under(windows_, tile, target_);
    for_each_row(under, channel, [&](std::int64_t d, std::int64_t h, float* to) {
      const float* const row = copy + d * windows_.layout.plane_step + h * windows_.layout.row_step;
      for (std::int64_t w = under.lo; to != nullptr && w < under.hi; ++w)
        sparse::store(sparse::load(row + w * kVector), to + w * target_.step[2]);
    });
  }

 private:
  // Calls body(d, h, address of the row's voxel 0, null for a row outside).
  template <class Body>
  void for_each_row(const UnderTile& under, std::int64_t channel, const Body& body) const {
    for (std::int64_t d = 0; d < under.extents[0]; ++d)
      for (std::int64_t h = 0; h < under.extents[1]; ++h)
        body(d, h,
             under.is_inside(d, h, target_)
                 ? target_.data + (under.at[0] + d) * target_.step[0] +
                       (under.at[1] + h) * target_.step[1] + under.at[2] * target_.step[2] + channel
                 : nullptr);
  }

  const TileWindows& windows_;
  Target<float> target_;
  Range unwritten_;
};

/// Sums of voxels that wait for later tiles, for one slab of planes: the windows of a tile reach
/// kernel - 1 voxels into the next tile along each axis.
struct Edges {
  AlignedBuffer<float> plane;   ///< the next planes: kernel - 1 of the block
  AlignedBuffer<float> head;    ///< the slab's first planes, for the slab before; as `plane`
  AlignedBuffer<float> row;     ///< the next rows, in the planes under a pooled plane
  AlignedBuffer<float> column;  ///< the next voxels, in the rows of a tile

  /// Allocates for blocks of at most `rows` x `pixels` x `channels` in a plane.
  Edges(const TileWindows& windows, const Spatial& tile, std::int64_t rows, std::int64_t pixels,
        std::int64_t channels, bool first)
      : plane((windows.kernel[0] - 1) * rows * pixels * channels),
        head(first ? 0 : plane.size()),
        row(windows.pool[0] * (windows.kernel[1] - 1) * pixels * channels),
        column(windows.pool[0] * windows.layout.under(tile)[1] * (windows.kernel[2] - 1) *
               channels) {}
};

/// The edges that a plane of tiles shares with the planes before and after it.
struct PlaneEdges {
  float* before = nullptr;     ///< sums of its first planes; null: nothing was added yet
  float* head = nullptr;       ///< destination of its first planes when done; null: the gradient
  float* after = nullptr;      ///< sums of its last planes, which windows of the next plane reach
  bool after_holds = false;    ///< sums of the next plane are there already
  bool after_is_done = false;  ///< no later plane adds to them
};

/// A gradient of bf16 with the sums that wait at its edges.
class RoundedSums {
 public:
  RoundedSums(const TileWindows& windows, const Target<Bfloat16>& target, std::int64_t channels,
              const PlaneEdges& planes, Edges& edges)
      : windows_(windows),
        target_(target),
        planes_(planes),
        edges_(edges),
        pixel_(channels),
        row_(target.extents[2] * channels),
        plane_(target.extents[1] * row_) {}

  void load(const Tile& tile, std::int64_t channel, float* copy) const {
    const UnderTile under(windows_, tile, target_);
    for (std::int64_t d = 0; d < under.extents[0]; ++d)
      for (std::int64_t h = 0; h < under.extents[1]; ++h)
        load_row(under, d, h, channel,
                 copy + d * windows_.layout.plane_step + h * windows_.layout.row_step);
  }
  void store(const Tile& tile, std::int64_t channel, const float* copy) const {
    const UnderTile under(windows_, tile, target_);
    for (std::int64_t d = 0; d < under.extents[0]; ++d)
      for (std::int64_t h = 0; h < under.extents[1]; ++h)
        if (under.is_inside(d, h, target_))
          store_row(under, d, h, channel,
                    copy + d * windows_.layout.plane_step + h * windows_.layout.row_step);
  }

 private:
  // The address of voxel 0 of row h under the tile in plane d of an edge of planes.
  float* in_plane(float* edge, std::int64_t d, std::int64_t h, const UnderTile& under,
                  std::int64_t channel) const {
    return edge + d * plane_ + (under.at[1] + h) * row_ + under.at[2] * pixel_ + channel;
  }
  float* in_row(std::int64_t d, std::int64_t h, const UnderTile& under,
                std::int64_t channel) const {
    return edges_.row.data() + (d * (windows_.kernel[1] - 1) + h) * row_ + under.at[2] * pixel_ +
           channel;
  }
  float* in_column(std::int64_t d, std::int64_t h, std::int64_t channel) const {
    const std::int64_t rows = windows_.layout.plane_step / windows_.layout.row_step;
    return edges_.column.data() + (d * rows + h) * (windows_.kernel[2] - 1) * pixel_ + channel;
  }

  void load_row(const UnderTile& under, std::int64_t d, std::int64_t h, std::int64_t channel,
                float* row) const {
    if (!under.is_inside(d, h, target_)) {
      std::fill_n(row, under.extents[2] * kVector, 0.0F);
      return;
    }
    const bool last = d >= windows_.pool[0];
    const std::int64_t reach = under.after_column ? windows_.kernel[2] - 1 : 0;
    const std::int64_t column = std::clamp(reach, under.lo, under.hi);
    const auto read = [&](const float* from, std::int64_t lo, std::int64_t hi) {
      for (std::int64_t w = lo; w < hi; ++w)
        sparse::store(sparse::load(from + w * pixel_), row + w * kVector);
    };
    float* const after =
        last ? in_plane(planes_.after, d - windows_.pool[0], h, under, channel) : nullptr;
    std::fill_n(row, under.lo * kVector, 0.0F);
    read(last ? after : in_column(d, h, channel), under.lo, column);
    if (under.after_row && h < windows_.kernel[1] - 1)
      read(last ? after : in_row(d, h, under, channel), column, under.hi);
    else if (last && planes_.after_holds)
      read(after, column, under.hi);
    else if (planes_.before != nullptr && d < windows_.kernel[0] - 1)
      read(in_plane(planes_.before, d, h, under, channel), column, under.hi);
    else
      std::fill_n(row + column * kVector, (under.hi - column) * kVector, 0.0F);
    std::fill_n(row + under.hi * kVector, (under.extents[2] - under.hi) * kVector, 0.0F);
  }

  void store_row(const UnderTile& under, std::int64_t d, std::int64_t h, std::int64_t channel,
                 const float* row) const {
    const bool last = d >= windows_.pool[0];
    const std::int64_t first_row = under.extents[1] - (windows_.kernel[1] - 1);
    const std::int64_t first_column = under.extents[2] - (windows_.kernel[2] - 1);
    const std::int64_t column =
        under.before_column ? std::clamp(first_column, under.lo, under.hi) : under.hi;
    const auto write = [&](float* to, std::int64_t lo, std::int64_t hi) {
      for (std::int64_t w = lo; w < hi; ++w)
        sparse::store(sparse::load(row + w * kVector), to + w * pixel_);
    };
    float* const after =
        last ? in_plane(planes_.after, d - windows_.pool[0], h, under, channel) : nullptr;
    write(last ? after : in_column(d, h, channel) - first_column * pixel_, column, under.hi);
    if (last && !planes_.after_is_done)
      write(after, under.lo, column);
    else if (under.before_row && h >= first_row)
      write(last ? after : in_row(d, h - first_row, under, channel), under.lo, column);
    else if (planes_.head != nullptr && d < windows_.kernel[0] - 1)
      write(in_plane(planes_.head, d, h, under, channel), under.lo, column);
    else
      round(under, d, h, channel, row, column);
  }

  void round(const UnderTile& under, std::int64_t d, std::int64_t h, std::int64_t channel,
             const float* row, std::int64_t hi) const {
    Bfloat16* const to = target_.data + (under.at[0] + d) * target_.step[0] +
                         (under.at[1] + h) * target_.step[1] + under.at[2] * target_.step[2] +
                         channel;
    for (std::int64_t w = under.lo; w < hi; ++w)
      store_values(load_values(row + w * kVector, kVector), kVector, to + w * target_.step[2]);
  }

  const TileWindows& windows_;
  Target<Bfloat16> target_;
  PlaneEdges planes_;
  Edges& edges_;
  std::int64_t pixel_, row_, plane_;  // steps of the edges
};

}  // namespace sparse
}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
