// SPDX-License-Identifier: Apache-2.0
// The shapes and the window of one convolution.
#pragma once

#include <cstdint>

#include "shape.hpp"

namespace halomesh {

/// A convolution of one sample: dense ndhwc blocks with their own padding. Channels are src.c and
/// dst.c; stride 1 and dilation 1 mean adjacent planes. Each of `groups` equal groups of dst
/// channels reads its own group of src channels; weights have the order out,in/groups,kd,kh,kw.
struct ConvolutionGeometry {
  Shape src, dst;
  Spatial kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, pad_before{}, pad_after{};
  std::int64_t groups = 1;
  friend bool operator==(const ConvolutionGeometry&, const ConvolutionGeometry&) = default;
};

}  // namespace halomesh
