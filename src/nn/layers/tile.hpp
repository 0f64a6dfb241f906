// SPDX-License-Identifier: Apache-2.0
// One voxel repeated over all of space, e.g. a global average joined to a map.
#pragma once

#include <string>
#include <vector>

#include "src/nn/kernels/channel_sums.hpp"
#include "src/nn/layer.hpp"

namespace halomesh {

/// dst(n,c,d,h,w) = src(n,c,0,0,0). The gradient of the voxel is the sum of all gradients: each
/// part adds up the gradients of its produced block, in double, and the exchange back adds the
/// parts.
class Tile final : public Layer {
 public:
  /// The extents of the output along d, h, w; throws Error where one is below 1.
  explicit Tile(const Spatial& extents, DataType type = DataType::kFloat32);

  const Spatial& extents() const { return extents_; }

  /// Throws Error unless there is one input, of extents 1x1x1.
  Shape dst_shape(std::span<const Shape> src) const override;
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override;
  DataType dst_type(std::span<const DataType> src) const override;
  std::string kernel_name() const override;
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;

 private:
  Spatial extents_;
  DataType type_;
  LayerContext context_;
  ChannelSums sums_;
};

}  // namespace halomesh
