// SPDX-License-Identifier: Apache-2.0
// The mean of each channel over all of space, split over its input: each part adds up its block.
#pragma once

#include <string>
#include <vector>

#include "src/nn/kernels/channel_sums.hpp"
#include "src/nn/layer.hpp"

namespace halomesh {

/// dst(n,c) = sum over d,h,w of src(n,c,d,h,w) / (D H W), of shape {c, 1, 1, 1}. A part writes the
/// share of its block of src, summed in double, to the channels of that block. The output is always
/// fp32, because shares are added between parts.
class GlobalAverage final : public Layer {
 public:
  explicit GlobalAverage(DataType type = DataType::kFloat32) : type_(type) {}

  /// Throws Error unless there is exactly one input.
  Shape dst_shape(std::span<const Shape> src) const override;
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override;
  bool splits_over_input() const override { return true; }
  Box contributes(std::span<const Box> src_local, std::span<const Shape> src) const override;
  DataType dst_type(std::span<const DataType> src) const override;
  std::string kernel_name() const override;
  std::int64_t forward_flops(std::span<const Shape> src) const override;
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;

 private:
  double weight() const;

  DataType type_;
  LayerContext context_;
  ChannelSums sums_;
};

}  // namespace halomesh
