// SPDX-License-Identifier: Apache-2.0
// Windows of transposed convolutions: see transposed_window.hpp.
#include "src/nn/kernels/transposed_window.hpp"

#include <algorithm>

#include "error.hpp"

namespace halomesh {
namespace {

// The quotient rounded towards minus infinity; b > 0.
std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// The input planes whose windows reach a plane of `dst`.
Range reaching(const AxisWindow& w, Range dst, std::int64_t src_extent) {
  const std::int64_t last_tap = (w.kernel - 1) * w.dilation;
  const Range planes{-floor_div(-(dst.lo + w.pad_before - last_tap), w.stride),
                     floor_div(dst.hi - 1 + w.pad_before, w.stride) + 1};
  return intersect(planes, Range{0, src_extent});
}

}  // namespace

void TransposedWindow::check() const {
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t padding = output_padding[a];
    require(padding == 0 || (padding > 0 && window.padding != PaddingKind::kSame &&
                             padding < std::max(window.stride[a], window.dilation[a])),
            text("transposed convolution {} with output padding {} along axis {}", text_of(window),
                 padding, a),
            "it must be less than the stride or the dilation, and 0 with SAME padding");
  }
}

Window TransposedWindow::resolve(const Spatial& src) const {
  Spatial enlarged = src;
  for (std::size_t a = 0; a < 3; ++a) enlarged[a] *= window.stride[a];
  return window.resolve(enlarged);
}

Spatial TransposedWindow::dst_extents(const Spatial& src) const {
  const Window windows = resolve(src);
  Spatial dst = src;
  for (std::size_t a = 0; a < 3; ++a) {
    const AxisWindow& w = windows[a];
    if (window.padding == PaddingKind::kSame)
      dst[a] *= w.stride;
    else
      dst[a] = (dst[a] - 1) * w.stride - w.pad_before - w.pad_after + w.reach() + output_padding[a];
    require(dst[a] > 0,
            text("transposed convolution {} of {}x{}x{}: nothing is left along axis {}",
                 text_of(window), src[0], src[1], src[2], a),
            "use a larger input or less padding");
    require(std::max(w.pad_before, w.pad_after) < w.reach(),
            text("padding {} before and {} after a window of {} planes", w.pad_before, w.pad_after,
                 w.reach()),
            "padding must be narrower than the window");
  }
  return dst;
}

Box TransposedWindow::needed_box(const Box& dst, const Shape& src) const {
  if (dst.empty()) return {};
  const Window windows = resolve(src.spatial());
  Box box = Box::whole(src);
  for (std::size_t a = 0; a < 3; ++a) {
    const Range planes = reaching(windows[a], {dst.lo[a + 1], dst.hi[a + 1]}, src.spatial()[a]);
    box.lo[a + 1] = planes.lo;
    box.hi[a + 1] = std::max(planes.lo, planes.hi);
  }
  return box.normalized();
}

}  // namespace halomesh
