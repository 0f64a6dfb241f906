// SPDX-License-Identifier: Apache-2.0
// The geometry of transposed convolutions, whose windows begin at planes of the input and reach
// planes of the output.
#pragma once

#include "src/nn/window_options.hpp"

namespace halomesh {

/// The window of the convolution whose gradient a transposed one is. kSame: the output has the
/// input's extents times the stride.
struct TransposedWindow {
  WindowOptions window;
  /// Planes added at the end of each axis, which windows reach like any others; fewer than the
  /// stride or the dilation. Not with kSame.
  Spatial output_padding{};

  /// Throws Error when the padding of the output is too wide.
  void check() const;
  /// The window of that convolution, of which `src` are the extents of the output.
  Window resolve(const Spatial& src) const;
  /// (extent - 1) * stride - padding + reach + output_padding; throws Error where nothing is left.
  Spatial dst_extents(const Spatial& src) const;
  /// The pixels of src whose windows reach the block `dst`, with all channels; may be empty.
  Box needed_box(const Box& dst, const Shape& src) const;
};

}  // namespace halomesh
