// SPDX-License-Identifier: Apache-2.0
// The taps of a convolution's kernel, each with the voxels for which it reads more than padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "box.hpp"
#include "src/nn/convolution_geometry.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {

struct ConvolutionTap {
  std::int64_t number = 0;  ///< in the order kd,kh,kw
  Box dst;                  ///< the voxels whose src is not padding, of all channels; not empty
  Spatial shift{};          ///< dst voxel x reads src voxel x * stride + shift
};

/// The taps that read more than padding somewhere.
std::vector<ConvolutionTap> taps_of(const ConvolutionGeometry& geometry);

/// Whether the tap reads exactly the voxels of src, in order.
bool reads_whole_src(const ConvolutionGeometry& geometry, const ConvolutionTap& tap);

/// The src voxels of a tap one after the other, `bytes` each: `src` itself or a copy in `scratch`.
const std::byte* dense_src(const ConvolutionGeometry& geometry, const ConvolutionTap& tap,
                           std::int64_t bytes, const std::byte* src, std::byte* scratch);

/// Calls body(index of the voxel in the tap's box, its index in dst, index of the voxel that it
/// reads in src) for each voxel of the tap, in parallel where a voxel has many `channels`.
template <class Body>
void visit_tap(const ConvolutionGeometry& geometry, const ConvolutionTap& tap,
               std::int64_t channels, const Body& body) {
  const Spatial src = geometry.src.spatial(), dst = geometry.dst.spatial();
  const Spatial &step = geometry.stride, &shift = tap.shift;
  Box box = tap.dst;
  box.lo[kC] = 0;
  box.hi[kC] = channels;
  visit_runs(box, 1, false, [&](const Run& run) {
    const std::int64_t row = (run.d * step[0] + shift[0]) * src[1] + run.h * step[1] + shift[1];
    body(run.at / channels, (run.d * dst[1] + run.h) * dst[2] + run.w,
         row * src[2] + run.w * step[2] + shift[2]);
  });
}

}  // namespace halomesh
