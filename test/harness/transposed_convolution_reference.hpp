// SPDX-License-Identifier: Apache-2.0
// A transposed convolution and its gradients by naive loops in double precision, which spread each
// input over its window. Shares only the options with the layer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/nn/window_options.hpp"
#include "test/harness/convolution_reference.hpp"

namespace halomesh {

// The padding before the output, from the definition of the options alone: with kSame the smaller
// half of the padding that a convolution of the output would need.
inline std::int64_t padding_before(const WindowOptions& w, std::size_t a) {
  if (w.padding == PaddingKind::kExplicit) return w.pad_before[a];
  const std::int64_t reach = (w.kernel[a] - 1) * w.dilation[a] + 1;
  return w.padding == PaddingKind::kValid ? 0 : std::max<std::int64_t>(0, reach - w.stride[a]) / 2;
}

/// The reference with weight order in,out,kd,kh,kw; with a bias if there is a second parameter. A
/// depthwise one has a weight of c,kd,kh,kw.
inline Reference transposed_reference(const WindowOptions& options, bool depthwise = false) {
  return [=](const ReferenceInput& in) {
    const GlobalTensor &x = in.src[0], &y = in.diff_dst;
    const Spatial& k = options.kernel;
    ReferenceOutput out{Estimate(y.values.size()), {Estimate(x.values.size())}, {}};
    for (const auto& parameter : in.parameters) out.diff_parameters.emplace_back(parameter.size());
    const auto taps = static_cast<std::size_t>(k[0] * k[1] * k[2]);
    const auto outputs = static_cast<std::size_t>(y.shape.c);
    // Adds one input pixel and one tap: all pairs of channels.
    const auto add_tap = [&](std::size_t from, std::size_t to, std::size_t tap) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(x.shape.c); ++i)
        for (std::size_t o = depthwise ? i : 0; o < (depthwise ? i + 1 : outputs); ++o) {
          const std::size_t w = (depthwise ? i : i * outputs + o) * taps + tap;
          out.dst.add(to + o, in.parameters[0][w], x.values[from + i]);
          out.diff_src[0].add(from + i, in.parameters[0][w], y.values[to + o]);
          out.diff_parameters[0].add(w, x.values[from + i], y.values[to + o]);
        }
    };
    const auto plane = [&](std::size_t a, std::int64_t i, std::int64_t t) {
      return i * options.stride[a] - padding_before(options, a) + t * options.dilation[a];
    };
    const auto spread = [&](std::int64_t n, std::int64_t d, std::int64_t h, std::int64_t w) {
      std::size_t tap = 0;
      for (std::int64_t td = 0; td < k[0]; ++td)
        for (std::int64_t th = 0; th < k[1]; ++th)
          for (std::int64_t tw = 0; tw < k[2]; ++tw, ++tap) {
            const std::int64_t yd = plane(0, d, td), yh = plane(1, h, th), yw = plane(2, w, tw);
            if (is_inside(yd, y.shape.d) && is_inside(yh, y.shape.h) && is_inside(yw, y.shape.w))
              add_tap(x.offset(n, 0, d, h, w), y.offset(n, 0, yd, yh, yw), tap);
          }
    };
    for (std::int64_t n = 0; n < x.batch; ++n)
      for (std::int64_t d = 0; d < x.shape.d; ++d)
        for (std::int64_t h = 0; h < x.shape.h; ++h)
          for (std::int64_t w = 0; w < x.shape.w; ++w) spread(n, d, h, w);
    for (std::size_t at = 0; in.parameters.size() > 1 && at < y.values.size(); ++at) {
      out.dst.add(at, in.parameters[1][at % outputs]);
      out.diff_parameters[1].add(at % outputs, y.values[at]);
    }
    out.dst.terms = static_cast<double>(x.shape.c) * static_cast<double>(taps) + 1;
    out.diff_src[0].terms = static_cast<double>(y.shape.c) * static_cast<double>(taps);
    for (Estimate& diff : out.diff_parameters)
      diff.terms = static_cast<double>(y.batch * y.shape.d * y.shape.h * y.shape.w);
    return out;
  };
}

}  // namespace halomesh
