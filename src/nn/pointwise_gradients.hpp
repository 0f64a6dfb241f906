// SPDX-License-Identifier: Apache-2.0
// The gradients of a 1x1x1 convolution as matrix products. Must not depend on layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/nn/onednn.hpp"
#include "src/nn/scratch.hpp"

namespace halomesh {

/// The backward pass of a convolution with kernel 1x1x1, stride 1 and one group, in fp32. Its
/// products read the weights and write their gradient in the order out,in: unlike the kernels of a
/// convolution, they need no copies in a layout of the library's. First take(), then run.
class PointwiseGradients {
 public:
  /// Nothing unless it is such a convolution and the library has compiled products for this CPU,
  /// rather than its reference code.
  static std::optional<PointwiseGradients> make_if_suits(const ConvolutionGeometry& geometry,
                                                         DataType compute, bool bias);

  /// Takes what the gradients of samples but the first are kept in before they are added, unless
  /// there is one sample.
  void take(Scratch& scratch, std::int64_t samples);
  /// Writes all of diff_src, a dense block of one sample as `diff_dst` is one.
  void backward_data(const float* diff_dst, const float* weight, float* diff_src);
  /// Writes the gradients of one sample if it is the first, or adds them to those of the samples
  /// before. `diff_bias` is null without a bias.
  void backward_weights(const float* src, const float* diff_dst, bool first, float* diff_weight,
                        float* diff_bias);
  /// The library's names of the kernels, as those of ConvolutionKernels.
  std::vector<std::string> implementations() const;

 private:
  PointwiseGradients(const ConvolutionGeometry& geometry, bool bias);

  std::int64_t in_, out_;
  InnerProductKernels kernels_;
  ScratchBuffer<float> terms_;  // of the weight, then of the bias
};

}  // namespace halomesh
