// SPDX-License-Identifier: Apache-2.0
// A convolution and its gradients by naive loops in double precision; see ConvolutionOptions.
// Shares only the definition of a window with the layer.
#pragma once

#include <cstdint>

#include "partition/window.hpp"
#include "test/harness/reference.hpp"

namespace halomesh {

/// The src plane that tap `tap` of output plane `i` reads; outside the tensor it is padding.
inline std::int64_t source_plane(const AxisWindow& w, std::int64_t i, std::int64_t tap) {
  return i * w.stride - w.pad_before + tap * w.dilation;
}
inline bool is_inside(std::int64_t i, std::int64_t extent) { return i >= 0 && i < extent; }

/// The reference for tensors of bf16, each value of which is rounded `forward` or `backward` times:
/// to 8 digits instead of 24, so that each rounding counts as 2^16 of those of fp32.
inline Reference in_bfloat16(const Reference& exact, double forward, double backward) {
  return [=](const ReferenceInput& in) {
    ReferenceOutput out = exact(in);
    out.dst.terms += forward * 0x1p16;
    for (Estimate& diff : out.diff_src) diff.terms += backward * 0x1p16;
    return out;
  };
}

/// The reference of a convolution with weight order out,in/groups,kd,kh,kw; with a bias if there is
/// a second parameter.
inline Reference convolution_reference(const Window& window, std::int64_t groups = 1) {
  return [window, groups](const ReferenceInput& in) {
    const GlobalTensor &x = in.src[0], &y = in.diff_dst;
    const Shape src = x.shape, dst = y.shape;
    const AxisWindow &wd = window[0], &wh = window[1], &ww = window[2];
    ReferenceOutput out{Estimate(y.values.size()), {Estimate(x.values.size())}, {}};
    for (const auto& parameter : in.parameters) out.diff_parameters.emplace_back(parameter.size());
    Estimate &dx = out.diff_src[0], &dw = out.diff_parameters[0];
    const bool with_bias = in.parameters.size() > 1;
    const auto src_group = static_cast<std::size_t>(src.c / groups);
    const auto dst_group = static_cast<std::size_t>(dst.c / groups);
    // Adds one tap of one output position: all pairs of channels.
    const auto add_tap = [&](std::size_t to, std::size_t from, std::size_t tap) {
      const auto taps = static_cast<std::size_t>(wd.kernel * wh.kernel * ww.kernel);
      for (std::size_t o = 0; o < static_cast<std::size_t>(dst.c); ++o)
        for (std::size_t i = 0; i < src_group; ++i) {
          const std::size_t w = (o * src_group + i) * taps + tap;
          const std::size_t at = from + o / dst_group * src_group + i;
          out.dst.add(to + o, in.parameters[0][w], x.values[at]);
          dx.add(at, in.parameters[0][w], y.values[to + o]);
          dw.add(w, x.values[at], y.values[to + o]);
        }
    };
    const auto position = [&](std::int64_t n, std::int64_t d, std::int64_t h, std::int64_t w) {
      const std::size_t to = y.offset(n, 0, d, h, w);
      for (std::size_t o = 0; with_bias && o < static_cast<std::size_t>(dst.c); ++o) {
        out.dst.add(to + o, in.parameters[1][o]);
        out.diff_parameters[1].add(o, y.values[to + o]);
      }
      std::size_t tap = 0;
      for (std::int64_t td = 0; td < wd.kernel; ++td)
        for (std::int64_t th = 0; th < wh.kernel; ++th)
          for (std::int64_t tw = 0; tw < ww.kernel; ++tw, ++tap) {
            const std::int64_t sd = source_plane(wd, d, td), sh = source_plane(wh, h, th);
            const std::int64_t sw = source_plane(ww, w, tw);
            if (is_inside(sd, src.d) && is_inside(sh, src.h) && is_inside(sw, src.w))
              add_tap(to, x.offset(n, 0, sd, sh, sw), tap);
          }
    };
    for (std::int64_t n = 0; n < x.batch; ++n)
      for (std::int64_t d = 0; d < dst.d; ++d)
        for (std::int64_t h = 0; h < dst.h; ++h)
          for (std::int64_t w = 0; w < dst.w; ++w) position(n, d, h, w);
    const auto taps = static_cast<double>(wd.kernel * wh.kernel * ww.kernel);
    const auto positions = static_cast<double>(x.batch * dst.d * dst.h * dst.w);
    out.dst.terms = static_cast<double>(src_group) * taps + 1;
    dx.terms = static_cast<double>(dst_group) * taps;
    for (Estimate& diff : out.diff_parameters) diff.terms = positions;
    return out;
  };
}

}  // namespace halomesh
