// SPDX-License-Identifier: Apache-2.0
// How a network is trained on samples whose extents differ from those of its input.
#pragma once

#include <optional>

namespace halomesh {

struct CropOptions {
  /// Takes a random crop at each use of a training sample and slides windows over samples in
  /// validation. Otherwise samples are centred in the input, which is at least as large.
  bool random = false;
  double foreground = 0.4;  ///< share of the random crops that are placed around foreground
  double overlap = 0.5;     ///< overlap of the windows in validation
  /// The value of voxels outside the sample, which do not count in the loss; none: samples must be
  /// at least as large as the input.
  std::optional<float> padding{};
};

}  // namespace halomesh
