// SPDX-License-Identifier: Apache-2.0
// How a fused convolution block is computed piece by piece: which convolution planes belong to a
// piece of its output or input. Pure geometry.
#pragma once

#include <cstdint>
#include <vector>

#include "box.hpp"
#include "partition/window.hpp"
#include "src/nn/layers/window_options.hpp"
#include "src/nn/onednn.hpp"

namespace halomesh {

/// Boxes in global coordinates of one sample: of the convolution's output, which is never stored as
/// a whole, and of what it reads or (backward) what its input gradient covers.
struct ConvolutionPiece {
  Box dst;   ///< of the pooled output; empty in pieces of the input gradient
  Box conv;  ///< of the convolution's output
  Box src;   ///< of the input
};

/// The geometry of a convolution followed by max pooling over windows that touch and do not
/// overlap. Convolution planes beyond the last whole pooling window are never computed.
class ConvolutionBlockGeometry {
 public:
  ConvolutionBlockGeometry() = default;
  /// Throws Error when a window does not fit an input of shape `src`.
  ConvolutionBlockGeometry(const WindowOptions& window, const Spatial& pool, std::int64_t filters,
                           const Shape& src);

  /// The planes of the whole output.
  const Shape& dst_shape() const { return dst_; }
  /// The convolution planes under a box of the output.
  Box conv_box(const Box& dst) const;
  /// The box of the output whose windows read something of the box `src` of the input; of a
  /// convolution of stride and dilation 1.
  Box reading(const Box& src) const;
  /// The block of the input that belongs to a block of the output: the same place, `pool` times as
  /// large. Throws Error unless such blocks cover the input.
  Box src_block(const Box& dst) const;
  /// The input planes under a box of the output, clamped to the tensor.
  Box needs(const Box& dst) const { return needed_box(window_, conv_box(dst), src_); }
  /// The convolution of one piece, with the padding that is its own.
  ConvolutionGeometry convolution(const ConvolutionPiece& piece) const;

  /// Cuts `dst` into pieces of at most `planes` output planes.
  std::vector<ConvolutionPiece> split_dst(const Box& dst, std::int64_t planes) const;
  /// Cuts the input under `dst` into pieces of at most `planes` input planes, each with those
  /// convolution planes under `dst` that read it; one piece when the convolution has a stride
  /// along d.
  std::vector<ConvolutionPiece> split_src(const Box& dst, std::int64_t planes) const;

 private:
  WindowOptions options_;
  Window window_{};
  Spatial pool_{1, 1, 1};
  Shape src_, dst_;
};

}  // namespace halomesh
