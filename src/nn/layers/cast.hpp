// SPDX-License-Identifier: Apache-2.0
// The values of a tensor in another type: between layers of fp32 and of bf16. Pointwise: needs no
// halo.
#pragma once

#include <string>

#include "src/nn/layers/pointwise.hpp"

namespace halomesh {

/// out = src, rounded to the type, which is fp32 or bf16, as is that of src.
class Cast final : public Pointwise {
 public:
  explicit Cast(DataType type) : type_(type) {}

  DataType dst_type(std::span<const DataType> src) const override;
  std::string kernel_name() const override { return fmt::format("cast to {}", name_of(type_)); }
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  bool repeats_forward() const override { return true; }
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;

 private:
  DataType type_;
};

}  // namespace halomesh
