// SPDX-License-Identifier: Apache-2.0
// A leaky rectifier: x where x > 0, slope * x elsewhere. Pointwise: needs no halo.
#pragma once

#include <string>

#include "src/nn/layers/pointwise.hpp"

namespace halomesh {

/// out = x > 0 ? x : slope * x; with slope 0 the rectifier (ReLU). NaN stays NaN. The derivative is
/// read from the sign of the output, which is that of the input because the slope is not negative.
class LeakyRelu final : public Pointwise {
 public:
  /// Throws Error for a slope that is negative or not finite. CosmoFlow uses 0.3, the default of
  /// Keras' LeakyReLU layer, which the benchmark's reference keeps.
  explicit LeakyRelu(float slope = 0.3f, DataType type = DataType::kFloat32);

  DataType dst_type(std::span<const DataType> src) const override;
  std::string kernel_name() const override { return fmt::format("leaky relu {}", name_of(type_)); }
  bool sums_exactly() const override { return true; }
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  bool backward_reads_dst() const override { return true; }
  bool repeats_forward() const override { return true; }
  bool backward_in_place(std::size_t) const override { return true; }
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;

 private:
  float slope_;
  DataType type_;
};

}  // namespace halomesh
