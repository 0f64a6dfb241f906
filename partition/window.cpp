// SPDX-License-Identifier: Apache-2.0
// Sliding windows: see window.hpp.
#include "partition/window.hpp"

#include <algorithm>

#include "error.hpp"

namespace halomesh {

std::int64_t AxisWindow::dst_extent(std::int64_t src_extent) const {
  const std::int64_t room = src_extent + pad_before + pad_after - reach();
  return room < 0 ? 0 : room / stride + 1;
}

Range AxisWindow::reads(Range dst) const {
  if (dst.hi <= dst.lo) return {};
  return {dst.lo * stride - pad_before, (dst.hi - 1) * stride - pad_before + reach()};
}

AxisWindow same_window(std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                       std::int64_t src_extent) {
  AxisWindow window{kernel, stride, dilation, 0, 0};
  const std::int64_t dst = (src_extent + stride - 1) / stride;
  const std::int64_t total =
      std::max<std::int64_t>((dst - 1) * stride + window.reach() - src_extent, 0);
  window.pad_before = total / 2;
  window.pad_after = total - window.pad_before;
  return window;
}

AxisWindow valid_window(std::int64_t kernel, std::int64_t stride, std::int64_t dilation) {
  return {kernel, stride, dilation, 0, 0};
}

Spatial dst_extents(const Window& window, const Spatial& src) {
  Spatial dst{};
  for (std::size_t a = 0; a < 3; ++a) {
    const AxisWindow& w = window[a];
    require(w.kernel > 0 && w.stride > 0 && w.dilation > 0,
            text("window with kernel {}, stride {}, dilation {}", w.kernel, w.stride, w.dilation),
            "all three must be at least 1");
    require(w.pad_before >= 0 && w.pad_after >= 0 && w.pad_before < w.reach() &&
                w.pad_after < w.reach(),
            text("padding {} before and {} after a window of {} planes", w.pad_before, w.pad_after,
                 w.reach()),
            "padding must not be negative and must be narrower than the window");
    dst[a] = w.dst_extent(src[a]);
    require(dst[a] > 0,
            text("a window of {} planes does not fit an extent of {} with padding {} and {}",
                 w.reach(), src[a], w.pad_before, w.pad_after),
            "use a larger input or fewer layers");
  }
  return dst;
}

Box needed_box(const Window& window, const Box& dst, const Shape& src) {
  if (dst.empty()) return {};
  Box box = Box::whole(src);
  for (std::size_t a = 0; a < 3; ++a) {
    const Range r = window[a].reads({dst.lo[a + 1], dst.hi[a + 1]});
    box.lo[a + 1] = std::max(box.lo[a + 1], r.lo);
    box.hi[a + 1] = std::min(box.hi[a + 1], r.hi);
  }
  return box.normalized();
}

BlockPadding block_padding(const Window& window, const Box& dst, const Shape& src) {
  BlockPadding padding;
  const Spatial extents = src.spatial();
  for (std::size_t a = 0; a < 3; ++a) {
    const Range r = window[a].reads({dst.lo[a + 1], dst.hi[a + 1]});
    padding.before[a] = std::max<std::int64_t>(0, -r.lo);
    padding.after[a] = std::max<std::int64_t>(0, r.hi - extents[a]);
  }
  return padding;
}

}  // namespace halomesh
