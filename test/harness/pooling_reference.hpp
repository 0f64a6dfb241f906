// SPDX-License-Identifier: Apache-2.0
// Max and average pooling and their gradients by naive loops in double precision.
// Shares only the definition of a window with the layers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "src/nn/layers/pooling.hpp"
#include "test/harness/reference.hpp"

namespace halomesh {

enum class PoolingKind { kMax, kAverage, kAverageWithPadding };

inline std::unique_ptr<Layer> make_pooling(PoolingKind kind, const WindowOptions& window,
                                           DataType type = DataType::kFloat32) {
  if (kind == PoolingKind::kMax) return std::make_unique<MaxPooling>(window, type);
  return std::make_unique<AveragePooling>(
      window, kind == PoolingKind::kAverage ? PaddingCount::kExclude : PaddingCount::kInclude,
      type);
}

// Calls visit(d, h, w) for each input pixel under the window of an output pixel, in d,h,w order.
template <class Visit>
void for_each_input(const Window& window, const Shape& src, const Spatial& dst, Visit visit) {
  const auto plane = [&](std::size_t a, std::int64_t t) {
    return dst[a] * window[a].stride - window[a].pad_before + t * window[a].dilation;
  };
  for (std::int64_t i = 0; i < window[0].kernel; ++i)
    for (std::int64_t j = 0; j < window[1].kernel; ++j)
      for (std::int64_t k = 0; k < window[2].kernel; ++k) {
        const Spatial at{plane(0, i), plane(1, j), plane(2, k)};
        const bool inside = at[0] >= 0 && at[0] < src.d && at[1] >= 0 && at[1] < src.h &&
                            at[2] >= 0 && at[2] < src.w;
        if (inside) visit(at[0], at[1], at[2]);
      }
}

// Adds one output element. Maxima are chosen, not computed: magnitude 0 demands equality of the
// output.
inline void pool_element(PoolingKind kind, const Window& window, const Spatial& padded_end,
                         const GlobalTensor& src, const GlobalTensor& dy, std::int64_t n,
                         std::int64_t c, const Spatial& p, ReferenceOutput& out) {
  std::size_t largest = 0;
  std::int64_t count = 0;
  for_each_input(window, src.shape, p, [&](auto d, auto h, auto w) {
    const std::size_t at = src.offset(n, c, d, h, w);
    if (count++ == 0 || src.values[at] > src.values[largest]) largest = at;
  });
  const std::size_t to = dy.offset(n, c, p[0], p[1], p[2]);
  if (kind == PoolingKind::kMax) {
    out.dst.values[to] = src.values[largest];
    out.diff_src[0].add(largest, dy.values[to]);
    return;
  }
  if (kind == PoolingKind::kAverageWithPadding) {
    count = 1;
    for (std::size_t a = 0; a < 3; ++a) {
      std::int64_t taps = 0;
      for (std::int64_t t = 0; t < window[a].kernel; ++t)
        taps +=
            p[a] * window[a].stride - window[a].pad_before + t * window[a].dilation < padded_end[a];
      count *= taps;
    }
  }
  const double weight = 1.0 / static_cast<double>(count);
  for_each_input(window, src.shape, p, [&](auto d, auto h, auto w) {
    const std::size_t at = src.offset(n, c, d, h, w);
    out.dst.add(to, src.values[at], weight);
    out.diff_src[0].add(at, dy.values[to], weight);
  });
}

inline Reference pooling_reference(PoolingKind kind, WindowOptions options) {
  return [kind, options](const ReferenceInput& in) {
    const GlobalTensor& src = in.src[0];
    const Window window = options.resolve(src.shape.spatial());
    WindowOptions floor = options;
    floor.ceil = false;
    Spatial padded_end = src.shape.spatial();
    for (std::size_t a = 0; a < 3; ++a)
      padded_end[a] += floor.resolve(src.shape.spatial())[a].pad_after;
    ReferenceOutput out;
    out.dst = Estimate(in.diff_dst.values.size());
    out.diff_src.emplace_back(src.values.size());
    const Shape& dst = in.diff_dst.shape;
    for (std::int64_t n = 0; n < in.diff_dst.batch; ++n)
      for (std::int64_t d = 0; d < dst.d; ++d)
        for (std::int64_t h = 0; h < dst.h; ++h)
          for (std::int64_t w = 0; w < dst.w; ++w)
            for (std::int64_t c = 0; c < dst.c; ++c)
              pool_element(kind, window, padded_end, src, in.diff_dst, n, c, {d, h, w}, out);
    // An output has one rounding per tap, and those of the weight and of its product. An input
    // gradient has one per window over the element, of which there are at most as many as a window
    // has taps.
    const double taps = static_cast<double>(window[0].kernel * window[1].kernel * window[2].kernel);
    out.dst.terms = out.diff_src[0].terms = taps + 2;
    return out;
  };
}

}  // namespace halomesh
