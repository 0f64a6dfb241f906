// SPDX-License-Identifier: Apache-2.0
// The sum of several inputs of one shape, which joins branches of a network. Pointwise: needs no
// halo.
#pragma once

#include <string>

#include "src/nn/layers/pointwise.hpp"

namespace halomesh {

/// out = x0 + x1 + ..., added in the order of the inputs; in bf16 each addition is rounded. The
/// gradient of each input equals that of the output.
class Add final : public Pointwise {
 public:
  explicit Add(DataType type = DataType::kFloat32) : type_(type) {}

  /// The common shape; throws Error for fewer than two inputs or for shapes that differ.
  Shape dst_shape(std::span<const Shape> src) const override;

  DataType dst_type(std::span<const DataType> src) const override;
  std::string kernel_name() const override { return fmt::format("add {}", name_of(type_)); }
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  bool repeats_forward() const override { return true; }
  bool backward_in_place(std::size_t) const override { return true; }
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;

 private:
  DataType type_;
};

}  // namespace halomesh
