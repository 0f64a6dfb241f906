// SPDX-License-Identifier: Apache-2.0
// Hyperbolic tangent times a scale: the output layer of CosmoFlow.
// Pointwise: needs no halo.
#pragma once

#include <string>

#include "src/nn/layers/pointwise.hpp"

namespace halomesh {

/// out = scale * tanh(x). The derivative is scale * (1 - tanh(x)^2) = scale - out^2 / scale: read
/// from the output, without a second tanh.
class ScaledTanh final : public Pointwise {
 public:
  /// Throws Error for a scale that is zero or not finite. CosmoFlow uses 1.2.
  explicit ScaledTanh(float scale = 1.2f);

  std::string kernel_name() const override { return "scaled tanh fp32"; }
  bool sums_exactly() const override { return true; }
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  bool backward_reads_dst() const override { return true; }
  bool repeats_forward() const override { return true; }
  bool backward_in_place(std::size_t) const override { return true; }
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;

 private:
  float scale_;
};

}  // namespace halomesh
