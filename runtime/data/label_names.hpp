// SPDX-License-Identifier: Apache-2.0
// The names of files with labels beside those of samples.
#pragma once

#include <array>

namespace halomesh {

/// The labels of NAME are in NAME_seg and so on; earlier words come first.
inline constexpr std::array kLabelWords{"segmentation", "seg", "labels", "label", "mask"};

}  // namespace halomesh
