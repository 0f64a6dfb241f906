// SPDX-License-Identifier: Apache-2.0
// Sliding windows along the spatial axes: which input planes an output plane needs.
// Pure arithmetic for any kernel, stride, dilation and one-sided or symmetric padding.
#pragma once

#include <array>
#include <cstdint>

#include "box.hpp"
#include "shape.hpp"

namespace halomesh {

/// Half-open range of planes along one axis, in global coordinates.
struct Range {
  std::int64_t lo = 0, hi = 0;
  std::int64_t extent() const { return hi > lo ? hi - lo : 0; }
  friend bool operator==(const Range&, const Range&) = default;
  /// The common planes; extent 0 where the ranges are disjoint.
  friend Range intersect(const Range& a, const Range& b) {
    return {a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
  }
};

/// The window of one axis: output plane i reads input planes i*stride - pad_before + t*dilation
/// for t in [0, kernel); planes outside the tensor are padding.
struct AxisWindow {
  std::int64_t kernel = 1, stride = 1, dilation = 1, pad_before = 0, pad_after = 0;

  /// Planes from the first to the last tap, both included.
  std::int64_t reach() const { return (kernel - 1) * dilation + 1; }
  /// Output extent for an input extent (0 when the window does not fit).
  std::int64_t dst_extent(std::int64_t src_extent) const;
  /// Input planes that the output range reads, padding included: may leave [0, src_extent).
  Range reads(Range dst) const;
  friend bool operator==(const AxisWindow&, const AxisWindow&) = default;
};

/// One window per spatial axis, in the order d, h, w.
using Window = std::array<AxisWindow, 3>;

/// TensorFlow's SAME padding: output extent ceil(src_extent / stride); the smaller half of the
/// total padding comes before, the larger after (kernel 2, stride 1: nothing before, one plane
/// after). Source: TensorFlow API documentation, tf.nn, "Notes on padding".
AxisWindow same_window(std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                       std::int64_t src_extent);

/// A window without padding: output extent (src_extent - reach) / stride + 1.
AxisWindow valid_window(std::int64_t kernel, std::int64_t stride, std::int64_t dilation = 1);

/// The spatial extents of the output; throws Error when a window does not fit the input or when
/// padding is as wide as the window (an output plane would read only padding).
Spatial dst_extents(const Window& window, const Spatial& src);

/// The part of the input that the spatial block of `dst` reads, clamped to the tensor; all
/// `src.c` channels. Empty for an empty dst.
Box needed_box(const Window& window, const Box& dst, const Shape& src);

/// The padding of the block `dst` on each axis: planes of needed_box() that fell outside the
/// tensor, {before, after}. Zero inside the tensor: halos replace padding there.
struct BlockPadding {
  Spatial before{}, after{};
};
BlockPadding block_padding(const Window& window, const Box& dst, const Shape& src);

}  // namespace halomesh
