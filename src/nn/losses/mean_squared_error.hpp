// SPDX-License-Identifier: Apache-2.0
// The mean squared error of a regression: a vector of targets per sample.
#pragma once

#include "src/nn/loss.hpp"

namespace halomesh {

/// L = 1/(B*T) sum (p - t)^2 over the B samples of all replicas and the T targets of each; dL/dp =
/// 2 (p - t) / (B*T). add_errors() defines the terms.
class MeanSquaredError : public Loss {
 public:
  /// `output` is the global shape of the network's output. Throws Error unless it has one voxel,
  /// with a channel for each target.
  explicit MeanSquaredError(const Shape& output);

  Shape target_shape() const override { return {targets_, 1, 1, 1}; }
  DataType target_type() const override { return DataType::kFloat32; }
  Box target_box(const Box& output) const override { return output; }
  std::size_t sums_per_sample() const override;
  void add_sums(ConstView output, AnyConstView target, std::span<double> sums) override;
  double gradient(ConstView output, AnyConstView target, std::span<const double> sums,
                  std::int64_t global_batch, View diff) override;
  Score score() const override { return Score::kMae; }
  Quality quality(std::span<const double> terms) const override;
  bool sums_exactly() const override { return true; }

 private:
  std::int64_t targets_;
};

}  // namespace halomesh
