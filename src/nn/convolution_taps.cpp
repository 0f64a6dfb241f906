// SPDX-License-Identifier: Apache-2.0
// The taps of a convolution: see convolution_taps.hpp.
#include "src/nn/convolution_taps.hpp"

#include <algorithm>
#include <cstring>

namespace halomesh {

std::vector<ConvolutionTap> taps_of(const ConvolutionGeometry& geometry) {
  std::vector<ConvolutionTap> taps;
  const Spatial& kernel = geometry.kernel;
  const Spatial src = geometry.src.spatial(), dst = geometry.dst.spatial();
  std::int64_t number = 0;
  Spatial tap{};
  for (tap[0] = 0; tap[0] < kernel[0]; ++tap[0])
    for (tap[1] = 0; tap[1] < kernel[1]; ++tap[1])
      for (tap[2] = 0; tap[2] < kernel[2]; ++tap[2], ++number) {
        Box to = Box::whole(geometry.dst);
        Spatial shift{};
        for (std::size_t a = 0; a < 3; ++a) {
          const std::int64_t stride = geometry.stride[a];
          shift[a] = tap[a] * geometry.dilation[a] - geometry.pad_before[a];
          to.lo[a + 1] = std::max<std::int64_t>(0, stride - 1 - shift[a]) / stride;
          to.hi[a + 1] = std::min(dst[a], (src[a] - shift[a] + stride - 1) / stride);
        }
        if (!to.empty()) taps.push_back({number, to, shift});
      }
  return taps;
}

bool reads_whole_src(const ConvolutionGeometry& geometry, const ConvolutionTap& tap) {
  return geometry.stride == Spatial{1, 1, 1} && geometry.src.spatial() == geometry.dst.spatial() &&
         tap.dst == Box::whole(geometry.dst);
}

const std::byte* dense_src(const ConvolutionGeometry& geometry, const ConvolutionTap& tap,
                           std::int64_t bytes, const std::byte* src, std::byte* scratch) {
  if (reads_whole_src(geometry, tap)) return src;
  const Spatial &step = geometry.stride, extents = geometry.src.spatial();
  Box box = tap.dst;
  box.hi[kC] = bytes;
  visit_runs(box, 1, step[2] == 1, [&](const Run& run) {
    const Spatial& shift = tap.shift;
    const std::int64_t row = (run.d * step[0] + shift[0]) * extents[1] + run.h * step[1] + shift[1];
    std::memcpy(scratch + run.at, src + (row * extents[2] + run.w * step[2] + shift[2]) * bytes,
                static_cast<std::size_t>(run.length));
  });
  return scratch;
}

}  // namespace halomesh
