// SPDX-License-Identifier: Apache-2.0
// A convolution and its gradients by naive loops in double precision; see ConvolutionOptions.
// Shares nothing with the layer but the definition of a window.
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

/// Reference of a convolution with weight order out,in,kd,kh,kw and a bias.
inline Reference convolution_reference(const Window& window) {
  return [window](const ReferenceInput& in) {
    const GlobalTensor &x = in.src[0], &y = in.diff_dst;
    const Shape src = x.shape, dst = y.shape;
    const AxisWindow &wd = window[0], &wh = window[1], &ww = window[2];
    ReferenceOutput out{Estimate(y.values.size()), {Estimate(x.values.size())}, {}};
    out.diff_parameters = {Estimate(in.parameters[0].size()), Estimate(in.parameters[1].size())};
    Estimate &dx = out.diff_src[0], &dw = out.diff_parameters[0], &db = out.diff_parameters[1];
    // One tap of one output position: all pairs of channels.
    const auto add_tap = [&](std::size_t to, std::size_t from, std::size_t tap) {
      const auto taps = static_cast<std::size_t>(wd.kernel * wh.kernel * ww.kernel);
      for (std::size_t o = 0; o < static_cast<std::size_t>(dst.c); ++o)
        for (std::size_t i = 0; i < static_cast<std::size_t>(src.c); ++i) {
          const std::size_t w = (o * static_cast<std::size_t>(src.c) + i) * taps + tap;
          out.dst.add(to + o, in.parameters[0][w], x.values[from + i]);
          dx.add(from + i, in.parameters[0][w], y.values[to + o]);
          dw.add(w, x.values[from + i], y.values[to + o]);
        }
    };
    const auto position = [&](std::int64_t n, std::int64_t d, std::int64_t h, std::int64_t w) {
      const std::size_t to = y.offset(n, 0, d, h, w);
      for (std::size_t o = 0; o < static_cast<std::size_t>(dst.c); ++o) {
        out.dst.add(to + o, in.parameters[1][o]);
        db.add(o, y.values[to + o]);
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
    out.dst.terms = static_cast<double>(src.c) * taps + 1;
    dx.terms = static_cast<double>(dst.c) * taps;
    dw.terms = db.terms = positions;
    return out;
  };
}

}  // namespace halomesh
