// SPDX-License-Identifier: Apache-2.0
// The losses of classes of whole samples: cross entropy and binary cross entropy of a vector of
// outputs.
#pragma once

#include <vector>

#include "src/nn/loss.hpp"

namespace halomesh {

/// With z the K outputs of a sample, t its label, w the weights and B the samples of all replicas,
///
///     cross entropy          L = 1/B sum over samples of -w(t) log p(t),  p = softmax(z)
///     binary cross entropy   L = 1/(B K) sum over samples and outputs of
///                                -t log p - (1 - t) log(1 - p),           p = 1/(1 + exp(-z))
///
/// The first takes one label of 0 to K-1 for each sample, the second a label of 0 or 1 for each
/// output. Targets are these labels as fp32. Computed in fp64. The score is the accuracy.
class ClassLoss final : public Loss {
 public:
  /// `output` is the global shape of the network's output. Throws Error unless it has one voxel,
  /// with a channel for each class, or for each label of a `binary` loss. `weights` are those of
  /// the classes; empty: 1.
  ClassLoss(const Shape& output, bool binary, std::vector<double> weights = {});

  Shape target_shape() const override { return {binary_ ? outputs_ : 1, 1, 1, 1}; }
  DataType target_type() const override { return DataType::kFloat32; }
  Box target_box(const Box& output) const override;
  std::int64_t sample_classes() const override { return binary_ ? 2 : outputs_; }
  bool takes_yes_or_no() const override { return binary_; }
  void to_probabilities(std::span<float> outputs) const override;
  std::size_t sums_per_sample() const override;
  bool keeps_samples() const override { return true; }
  void add_sums(ConstView output, AnyConstView target, std::span<double> sums) override;
  double gradient(ConstView output, AnyConstView target, std::span<const double> sums,
                  std::int64_t global_batch, View diff) override;
  Score score() const override { return Score::kAccuracy; }
  Quality quality(std::span<const double> terms) const override;
  bool sums_exactly() const override { return true; }

 private:
  /// The loss of `count` outputs of a sample, from output `first` on. Writes their probabilities
  /// and the slopes of the loss.
  double judge(const float* z, const float* labels, std::int64_t count);

  std::int64_t outputs_;
  bool binary_;
  std::vector<double> weights_;
  std::vector<double> probabilities_, slopes_;  // a sample's
};

}  // namespace halomesh
