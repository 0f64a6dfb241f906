// SPDX-License-Identifier: Apache-2.0
// The mean squared error of a regression: a vector of targets per sample.
#pragma once

#include "src/nn/loss.hpp"

namespace halomesh {

/// L = 1/(B*T) sum ((p - t) / s)^2 over the B samples of all replicas and the T targets of each,
/// with p = m + s y of the output y, and m and s the target's scale; dL/dy = 2 (p - t) / s / (B*T).
/// add_errors() defines the terms.
class MeanSquaredError : public Loss {
 public:
  /// `output` is the global shape of the network's output. Throws Error unless it has one voxel,
  /// with a channel for each target.
  explicit MeanSquaredError(const Shape& output);

  Shape target_shape() const override { return {targets_, 1, 1, 1}; }
  DataType target_type() const override { return DataType::kFloat32; }
  Box target_box(const Box& output) const override { return output; }
  void scale_targets(const std::vector<ChannelScale>& scales) override;
  std::span<const ChannelScale> target_scales() const override { return scales_; }
  std::size_t sums_per_sample() const override;
  void add_sums(ConstView output, AnyConstView target, std::span<double> sums) override;
  double gradient(ConstView output, AnyConstView target, std::span<const double> sums,
                  std::int64_t global_batch, View diff) override;
  Score score() const override { return Score::kMae; }
  Quality quality(std::span<const double> terms) const override;
  bool sums_exactly() const override { return true; }

 protected:
  /// The error of element `i` of a block, in units of the output: y - (t - m) / s.
  double error_at(ConstView output, ConstView truth, std::int64_t i) const;
  /// The scale of a target.
  ChannelScale scale_of(std::size_t target) const {
    return scales_.empty() ? ChannelScale{} : scales_[target];
  }

 private:
  std::int64_t targets_;
  std::vector<ChannelScale> scales_;
  std::vector<float> predicted_;  // targets of one sample
};

}  // namespace halomesh
