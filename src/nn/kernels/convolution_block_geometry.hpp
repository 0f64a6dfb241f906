// SPDX-License-Identifier: Apache-2.0
// The pieces in which a fused convolution block is computed, with the convolution planes that
// belong to each piece of its output or input. Pure geometry.
#pragma once

#include <cstdint>
#include <vector>

#include "box.hpp"
#include "partition/window.hpp"
#include "src/nn/onednn/onednn.hpp"
#include "src/nn/window_options.hpp"

namespace halomesh {

/// The boxes of one piece, in global coordinates of one sample. The convolution's output is never
/// stored as a whole.
struct ConvolutionPiece {
  Box dst;   ///< in the pooled output; empty in pieces of the input gradient
  Box conv;  ///< in the convolution's output
  Box src;   ///< in the input: the box that is read or, backward, whose gradient is written
};

/// The geometry of a convolution followed by max pooling over windows that touch and do not
/// overlap. Convolution planes beyond the last whole pooling window are never computed.
class ConvolutionBlockGeometry {
 public:
  ConvolutionBlockGeometry() = default;
  /// Throws Error when a window does not fit an input of shape `src`.
  ConvolutionBlockGeometry(const WindowOptions& window, const Spatial& pool, std::int64_t filters,
                           const Shape& src);

  /// The shape of the whole output.
  const Shape& dst_shape() const { return dst_; }
  /// The convolution planes under a box of the output.
  Box conv_box(const Box& dst) const;
  /// The box of the output whose windows read any of the box `src` of the input; for a convolution
  /// of stride and dilation 1.
  Box reading(const Box& src) const;
  /// The block of the input that belongs to a block of the output: at its place, `pool` times as
  /// large. Throws Error unless such blocks cover the input.
  Box src_block(const Box& dst) const;
  /// The input planes under a box of the output, clamped to the tensor.
  Box needs(const Box& dst) const { return needed_box(window_, conv_box(dst), src_); }
  /// The convolution of one piece, with the piece's own padding.
  ConvolutionGeometry convolution(const ConvolutionPiece& piece) const;

  /// Cuts `dst` into pieces of at most `planes` output planes.
  std::vector<ConvolutionPiece> split_dst(const Box& dst, std::int64_t planes) const;
  /// Cuts the input under `dst` into pieces of at most `planes` input planes, each with the
  /// convolution planes under `dst` that read it; one piece when the convolution has a stride along
  /// d.
  std::vector<ConvolutionPiece> split_src(const Box& dst, std::int64_t planes) const;

 private:
  WindowOptions options_;
  Window window_{};
  Spatial pool_{1, 1, 1};
  Shape src_, dst_;
};

}  // namespace halomesh
