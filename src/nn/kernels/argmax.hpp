// SPDX-License-Identifier: Apache-2.0
// The places of the maxima of a max pooling.
#pragma once

#include <cstdint>

#include "src/nn/tensor.hpp"

namespace halomesh {

/// One byte for each pooled element: the number of the maximum's tap in the d,h,w order of the
/// pooling window, with kSlopeBit set where the maximum was not above 0, so that the derivative of
/// a leaky activation behind it is its slope.
using Argmax = TensorView<std::uint8_t>;
constexpr std::uint8_t kSlopeBit = 0x80;

}  // namespace halomesh
