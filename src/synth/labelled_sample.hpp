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

/// Classes of both kinds of samples.
inline constexpr std::int64_t kSynthClasses = 3;

/// One abdomen of shape {1, d, h, w}: intensities as of computed tomography after the preprocessing
/// of KiTS19 (0 is 101 Hounsfield units, 1 is 77 more), with 0 background, 1 kidney-like organs and
/// 2 lesions in them. Organs look like other, unlabelled bodies but for their intensity, and
/// lesions like soft tissue but for their place. A pure function of its arguments; local. Throws
/// UsageError unless the shape has one channel and extents of at least 16.
LabelledSample make_volume(std::uint64_t seed, std::int64_t sample, const Shape& shape);

/// Channels of climate images, in the order of the DeepCAM benchmark.
inline constexpr std::int64_t kClimateChannels = 16;

/// One map of the atmosphere of shape {16, rows, 1, columns}, row 0 at the north pole and columns
/// periodic, with 0 background, 1 cyclone-like vortices (deep, warm and wet) and 2 river-like bands
/// of vapour and wind. Channels in the order and of about the ranges of the benchmark's: TMQ, U850,
/// V850, UBOT, VBOT, QREFHT, PS, PSL, T200, T500, PRECT, TS, TREFHT, Z1000, Z200, ZBOT. A pure
/// function of its arguments; local. Throws UsageError for other shapes, or fewer than 32 rows or
/// columns.
LabelledSample make_climate(std::uint64_t seed, std::int64_t sample, const Shape& shape);

}  // namespace halomesh
