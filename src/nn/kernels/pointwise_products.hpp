// SPDX-License-Identifier: Apache-2.0
// A 1x1x1 convolution as matrix products. Must not depend on layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/nn/onednn/onednn.hpp"
#include "src/nn/scratch.hpp"

namespace halomesh {

/// The forward pass and, in training, the backward pass of a convolution with kernel 1x1x1, stride
/// 1 and one group, in fp32. Its products read the weights and write their gradient in the order
/// out,in: unlike a convolution's kernels, they need no copies in a layout of the library. First
/// take(), then run.
class PointwiseProducts {
 public:
  /// Return nothing unless it is such a convolution and the library has compiled products for this
  /// CPU, rather than its reference code.
  static std::optional<PointwiseProducts> make_if_suits(const ConvolutionGeometry& geometry,
                                                        DataType compute, bool bias, bool training);
  /// Likewise, for forward() alone, and only where a step computes so few voxels, all samples and
  /// chunks together, that copies of the weights would take longer than the library's convolution
  /// would save.
  static std::optional<PointwiseProducts> make_forward_if_pays(const ConvolutionGeometry& geometry,
                                                               DataType compute, bool bias,
                                                               std::int64_t voxels);

  /// Takes memory in which the gradients of all samples but the first are kept before they are
  /// added, unless there is one sample.
  void take(Scratch& scratch, std::int64_t samples);
  /// Writes all of dst; dst and `src` are dense blocks of one sample. `bias` is null without one.
  void forward(const float* src, const float* weight, const float* bias, float* dst);
  /// Writes all of diff_src; diff_src and `diff_dst` are dense blocks of one sample.
  void backward_data(const float* diff_dst, const float* weight, float* diff_src);
  /// Writes the gradients of one sample if it is the first, otherwise adds them to earlier ones.
  /// `diff_bias` is null without a bias.
  void backward_weights(const float* src, const float* diff_dst, bool first, float* diff_weight,
                        float* diff_bias);
  /// The library's names of the kernels; see ConvolutionKernels::implementations().
  std::vector<std::string> implementations() const;

 private:
  PointwiseProducts(const ConvolutionGeometry& geometry, bool bias, bool training);

  bool training_;
  std::int64_t in_, out_;
  InnerProductKernels kernels_;
  ScratchBuffer<float> terms_;  // weight gradient, then bias gradient
};

}  // namespace halomesh
