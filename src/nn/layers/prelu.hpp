// SPDX-License-Identifier: Apache-2.0
// A leaky rectifier whose slope is trained. Pointwise: needs no halo.
#pragma once

#include <string>
#include <vector>

#include "src/nn/kernels/channel_sums.hpp"
#include "src/nn/layers/pointwise.hpp"

namespace halomesh {

/// out(c,...) = src > 0 ? src : weight(c) * src (He, Zhang, Ren & Sun, ICCV 2015, equation 1). The
/// parameter "weight" has one slope for each channel, or one for all; they begin with 0.25.
class PRelu final : public Pointwise {
 public:
  explicit PRelu(bool per_channel, DataType type = DataType::kFloat32)
      : per_channel_(per_channel), type_(type) {}

  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override;
  ParameterSlice parameter_slice(std::size_t parameter, const LayerBoxes& boxes,
                                 std::span<const Shape> src) const override;
  DataType dst_type(std::span<const DataType> src) const override;
  std::string kernel_name() const override { return fmt::format("prelu {}", name_of(type_)); }
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void load_parameters() override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  bool repeats_forward() const override { return true; }
  bool backward_reads_src() const override { return true; }
  bool backward_in_place(std::size_t) const override { return true; }
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;
  void backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                           AnyConstView diff_dst) override;

 private:
  bool per_channel_;
  DataType type_;
  ParameterView weight_;
  AlignedBuffer<float> slopes_;  // by produced channel
  ChannelSums sums_;
};

}  // namespace halomesh
