// SPDX-License-Identifier: Apache-2.0
// Several tensors put one after the other along the channels, which joins the two sides of a U-Net,
// or along an axis of space. Needs no halo.
#pragma once

#include <string>
#include <vector>

#include "src/nn/layer.hpp"

namespace halomesh {

/// out = all channels (or planes) of input 0, then all of input 1, ... The gradient of each input
/// is its share of the output's.
class Concat final : public Layer {
 public:
  explicit Concat(DataType type = DataType::kFloat32, Axis axis = kC) : type_(type), axis_(axis) {}

  /// Throws Error for fewer than two inputs or for extents that differ along another axis.
  Shape dst_shape(std::span<const Shape> src) const override;
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override;
  bool splits_over_channels() const override { return true; }
  DataType dst_type(std::span<const DataType> src) const override;
  std::string kernel_name() const override;
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  bool repeats_forward() const override { return true; }
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;

 private:
  // The place of a box of input `input` in the output.
  Box in_dst(Box box, std::size_t input) const;

  DataType type_;
  Axis axis_;
  LayerContext context_;
};

}  // namespace halomesh
