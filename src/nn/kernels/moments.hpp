// SPDX-License-Identifier: Apache-2.0
// The first two moments of groups of channels over all of space, split over the input: each part
// adds up its block. Normalizations need them for a whole sample.
#pragma once

#include <string>
#include <vector>

#include "src/nn/kernels/channel_sums.hpp"
#include "src/nn/layer.hpp"

namespace halomesh {

/// dst(n, 2g) = mean of src(n, c, d, h, w) over all of space and the channels c of group g, dst(n,
/// 2g + 1) = mean of src^2; shape {2 groups, 1, 1, 1}, in fp64. A part writes the shares of its
/// block of src to the groups that its channels belong to.
///
/// The variance is the difference of the second moment and the square of the first. It loses about
/// log2(mean^2 / variance) of the 53 bits of fp64, which is less than fp32 values have already
/// lost: with their 24 bits they determine a variance to 2^-24 only where the standard deviation is
/// at least 2^-12 of the mean, and there 29 bits remain. Shares of parts can therefore simply be
/// added, as all partial sums are.
class Moments final : public Layer {
 public:
  /// Uses `groups` groups of neighbouring channels; 0: each channel is a group.
  explicit Moments(std::int64_t groups = 0, DataType type = DataType::kFloat32);

  /// Throws Error unless there is one input whose channels the groups divide.
  Shape dst_shape(std::span<const Shape> src) const override;
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override;
  bool splits_over_input() const override { return true; }
  Box contributes(std::span<const Box> src_local, std::span<const Shape> src) const override;
  DataType dst_type(std::span<const DataType> src) const override;
  std::string kernel_name() const override;
  std::int64_t forward_flops(std::span<const Shape> src) const override;
  bool backward_reads_src() const override { return true; }
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;
  bool backward_adds() const override { return true; }
  void add_backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                         std::size_t input, AnyView diff_src) override;

 private:
  template <class Put>
  void diffs_of_src(AnyConstView src, AnyConstView diff_dst, AnyView diff_src, const Put& put);
  std::int64_t channels_per_group(std::span<const Shape> src) const;
  double weight() const;  // 1 / number of elements of a group

  std::int64_t groups_;
  DataType type_;
  LayerContext context_;
  ChannelSums sums_;                 // sums of src and of src^2
  AlignedBuffer<double> gradients_;  // gradients of both moments, by channel of src_needed
};

}  // namespace halomesh
