// SPDX-License-Identifier: Apache-2.0
// Products, maxima and other functions of two tensors, of which either may be repeated along axes
// where it has an extent of 1: gates of channels or of voxels. Needs no halo.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/nn/kernels/channel_sums.hpp"
#include "src/nn/layer.hpp"

namespace halomesh {

enum class BinaryKind : std::uint8_t { kAdd, kSubtract, kMultiply, kDivide, kMaximum, kMinimum };

/// out = f(x0, x1), element by element. Along each axis (channels, d, h, w) the inputs have one
/// extent, or one of them 1: its element there belongs to all of the other's, and its gradient is
/// the sum of theirs; each part adds up those of its produced block, in double, and the exchange
/// back adds the parts. The gradient of a maximum or minimum of equal values is halved between
/// them, as in PyTorch; a NaN gives NaN.
class Binary final : public Layer {
 public:
  explicit Binary(BinaryKind kind, DataType type = DataType::kFloat32) : kind_(kind), type_(type) {}

  /// Throws Error unless there are two inputs whose extents are equal or 1.
  Shape dst_shape(std::span<const Shape> src) const override;
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override;
  bool splits_over_channels() const override { return true; }
  DataType dst_type(std::span<const DataType> src) const override;
  std::string kernel_name() const override;
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  bool repeats_forward() const override { return true; }
  bool backward_reads_src() const override { return kind_ > BinaryKind::kSubtract; }
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;

 private:
  template <class T, class EachDiff>
  void write_diffs(TensorView<T> diff_src, std::size_t input, const EachDiff& each_diff);

  BinaryKind kind_;
  DataType type_;
  LayerContext context_;
  ChannelSums sums_;
};

}  // namespace halomesh
