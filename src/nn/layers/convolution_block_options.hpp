// SPDX-License-Identifier: Apache-2.0
// What a fused convolution block is made from.
#pragma once

#include <cstdint>

#include "src/nn/data_type.hpp"
#include "src/nn/layers/gradient_kernels.hpp"
#include "src/nn/layers/window_options.hpp"

namespace halomesh {

struct ConvolutionBlockOptions {
  std::int64_t filters = 1;
  WindowOptions window;   ///< of the convolution
  Spatial pool{2, 2, 2};  ///< pooling windows touch without overlapping; at most 128 elements
  float slope = 0.3F;     ///< of the leaky ReLU; at least 0
  DataType compute = DataType::kFloat32;  ///< of products, kFloat32 or kBfloat16; sums are fp32
  DataType dst = DataType::kFloat32;      ///< of the output, kFloat32 or kBfloat16
  GradientKernels kernels = GradientKernels::kAuto;  ///< for inputs of more than 8 channels
  /// Bytes of a core's private cache; 0: ask the system. The planes computed at once fit all of
  /// these caches together.
  std::int64_t cache_bytes = 0;
};

}  // namespace halomesh
