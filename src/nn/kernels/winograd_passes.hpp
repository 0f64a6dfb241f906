// SPDX-License-Identifier: Apache-2.0
// The passes of a convolution layer on one part by Winograd's minimal filtering, wherever it is
// preferred to the library's direct sums.
#pragma once

#include <cstdint>

#include "box.hpp"
#include "src/nn/layer.hpp"

namespace halomesh {

/// An interface compiled for each instruction set and made by IsaKernels::make_winograd_passes. The
/// convolution has stride and dilation 1. Views and boxes are its layer's, in fp32 or bf16; sums
/// and weights are fp32. Calls allocate nothing.
class WinogradPasses {
 public:
  struct Options {
    Spatial kernel{1, 1, 1};
    Spatial before{};  ///< planes of padding before the whole input
    /// Wherever the shapes fit, otherwise where a model of costs prefers it.
    bool wherever = false;
    bool bias = true;
    double at_once = 1;  ///< products_at_once() of the direct sums
  };

  virtual ~WinogradPasses() = default;
  virtual bool has_forward() const = 0;
  virtual bool has_backward_data() const = 0;
  virtual bool has_backward_weights() const = 0;

  /// Takes weights in the order out,in,kd,kh,kw, which must stay unchanged until the next call; the
  /// bias, null if there is none, is copied.
  virtual void load_weights(const float* weight, const float* bias) = 0;
  /// Computes `chunk` of sample n from `src_box`, the box of src that it needs.
  virtual void forward(const Pass& pass, AnyConstView src, const Box& src_box, std::int64_t n,
                       AnyView dst, const Box& chunk) = 0;
  /// Writes sample n of diff_src on src_needed; called for the samples of a pass in order.
  virtual void backward_data(const Pass& pass, AnyConstView diff_dst, std::int64_t n,
                             AnyView diff_src) = 0;
  /// Adds the gradient of sample n; sample 0 starts new sums.
  virtual void backward_weights(const Pass& pass, AnyConstView src, AnyConstView diff_dst,
                                std::int64_t n) = 0;
  /// Writes the sums; `diff_bias` is null if there is no bias.
  virtual void store_diff_weights(float* diff_weight, float* diff_bias) = 0;

 protected:
  WinogradPasses() = default;
  WinogradPasses(const WinogradPasses&) = default;
  WinogradPasses& operator=(const WinogradPasses&) = default;
};

}  // namespace halomesh
