// SPDX-License-Identifier: Apache-2.0
// How a network is trained on samples that have other extents than its input.
#pragma once

#include <optional>

namespace halomesh {

struct CropOptions {
  /// Each use of a training sample takes a crop at random, and validation slides windows over each
  /// sample; otherwise samples are put into the middle of the input, which is at least as large.
  bool random = false;
  double foreground = 0.4;  ///< share of the random crops that are placed around foreground
  double overlap = 0.5;     ///< of the windows of validations
  /// The value of voxels beyond a sample, which do not count; none: samples must be large enough.
  std::optional<float> padding{};
};

}  // namespace halomesh
