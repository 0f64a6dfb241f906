// SPDX-License-Identifier: Apache-2.0
// Synthetic images with a label for each voxel: organs and lesions, storms and rivers of vapour.
#pragma once

#include <cstdint>
#include <vector>

#include "shape.hpp"

namespace halomesh {

/// Values in the order d,h,w,c, and labels in the order d,h,w.
struct LabelledSample {
  std::vector<float> values;
  std::vector<std::uint8_t> labels;
};

/// The number of classes in both kinds of samples.
inline constexpr std::int64_t kSynthClasses = 3;

/// One abdomen of shape {1, d, h, w}: intensities as in computed tomography after the preprocessing
/// of KiTS19 (0 is 101 Hounsfield units, 1 is 77 more), with labels 0 for background, 1 for
/// kidney-like organs and 2 for lesions in them. Only their intensity distinguishes organs from
/// other, unlabelled bodies, and only their place distinguishes lesions from soft tissue. A pure
/// function of its arguments; local. Throws UsageError unless the shape has one channel and extents
/// of at least 16.
LabelledSample make_volume(std::uint64_t seed, std::int64_t sample, const Shape& shape);

/// The channels of climate images, in the order of the DeepCAM benchmark.
inline constexpr std::int64_t kClimateChannels = 16;

/// One map of the atmosphere of shape {16, rows, 1, columns}, row 0 at the north pole and columns
/// periodic, with labels 0 for background, 1 for cyclone-like vortices (deep, warm and wet) and 2
/// for river-like bands of vapour and wind. Order and approximate ranges of the channels are the
/// benchmark's: TMQ, U850, V850, UBOT, VBOT, QREFHT, PS, PSL, T200, T500, PRECT, TS, TREFHT, Z1000,
/// Z200, ZBOT. A pure function of its arguments; local. Throws UsageError for other shapes, or
/// fewer than 32 rows or columns.
LabelledSample make_climate(std::uint64_t seed, std::int64_t sample, const Shape& shape);

}  // namespace halomesh
