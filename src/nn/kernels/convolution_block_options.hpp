// SPDX-License-Identifier: Apache-2.0
// The options of a fused convolution block.
#pragma once

#include <cstdint>

#include "src/nn/data_type.hpp"
#include "src/nn/kernels/gradient_kernels.hpp"
#include "src/nn/layer.hpp"
#include "src/nn/window_options.hpp"

namespace halomesh {

struct ConvolutionBlockOptions {
  std::int64_t filters = 1;
  WindowOptions window;   ///< window of the convolution
  Spatial pool{2, 2, 2};  ///< pooling windows touch without overlapping; at most 128 elements
  float slope = 0.3F;     ///< slope of the leaky ReLU; at least 0
  /// Type of products, kFloat32 or kBfloat16; sums are fp32.
  DataType compute = DataType::kFloat32;
  DataType dst = DataType::kFloat32;                 ///< type of the output, kFloat32 or kBfloat16
  GradientKernels kernels = GradientKernels::kAuto;  ///< kernels for inputs of more than 8 channels
  /// Bytes of a core's private cache; 0: ask the system. Together, these caches hold the planes
  /// that are computed at once.
  std::int64_t cache_bytes = 0;
};

/// A fused block, compiled for any instruction set.
class BlockLayer : public Layer {
 public:
  virtual const ConvolutionBlockOptions& options() const = 0;
};

}  // namespace halomesh
