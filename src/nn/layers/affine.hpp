// SPDX-License-Identifier: Apache-2.0
// A scale and a shift of each channel. Pointwise: needs no halo.
#pragma once

#include <string>
#include <vector>

#include "src/nn/kernels/channel_sums.hpp"
#include "src/nn/layers/pointwise.hpp"

namespace halomesh {

/// out(c,...) = weight(c) * src(c,...) + bias(c); weights begin with 1, biases with 0. Without the
/// one or the other parameter, all its values are these.
class Affine final : public Pointwise {
 public:
  explicit Affine(DataType type = DataType::kFloat32, bool weight = true, bool bias = true)
      : type_(type), weight_(weight), bias_(bias) {}

  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override;
  DataType dst_type(std::span<const DataType> src) const override;
  std::string kernel_name() const override;
  std::int64_t forward_flops(std::span<const Shape> src) const override;
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  bool repeats_forward() const override { return true; }
  bool backward_in_place(std::size_t) const override { return true; }
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;
  void backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                           AnyConstView diff_dst) override;

 private:
  DataType type_;
  bool weight_, bias_;
  std::vector<ParameterView> parameters_;
  AlignedBuffer<float> fixed_;
  ChannelSums sums_;  // sums of src * diff_dst and of diff_dst
};

}  // namespace halomesh
