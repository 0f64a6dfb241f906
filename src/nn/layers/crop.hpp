// SPDX-License-Identifier: Apache-2.0
// Planes or channels cut off the sides of a tensor, as in U-Nets whose convolutions have no
// padding, or where a network takes a range of the channels.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/nn/layer.hpp"

namespace halomesh {

/// out(c,d,h,w) = src(c + before[kC], d + before[kD], h + before[kH], w + before[kW]).
class Crop final : public Layer {
 public:
  /// How much to cut off along c, d, h, w. Throws Error for a negative number.
  using Planes = std::array<std::int64_t, 4>;
  Crop(const Planes& before, const Planes& after, DataType type = DataType::kFloat32);

  /// Throws Error unless there is one input that has more planes than are cut off.
  Shape dst_shape(std::span<const Shape> src) const override;
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override;
  bool splits_over_channels() const override { return true; }
  DataType dst_type(std::span<const DataType> src) const override;
  std::string kernel_name() const override;
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;

 private:
  Planes before_, after_;
  DataType type_;
  LayerContext context_;
};

}  // namespace halomesh
