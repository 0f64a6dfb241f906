// SPDX-License-Identifier: Apache-2.0
// A loss whose values have no meaning.
#pragma once

#include <memory>
#include <utility>

#include "src/nn/loss.hpp"

namespace halomesh {

/// Has the shapes and the sums of another loss, but reads neither output nor targets, takes no time
/// and is always 0: for layers that are TimedLayers.
class TimedLoss final : public Loss {
 public:
  explicit TimedLoss(std::unique_ptr<Loss> loss) : loss_(std::move(loss)) {}

  Shape target_shape() const override { return loss_->target_shape(); }
  DataType target_type() const override { return loss_->target_type(); }
  Box target_box(const Box& output) const override { return loss_->target_box(output); }
  std::int64_t sample_classes() const override { return loss_->sample_classes(); }
  bool takes_yes_or_no() const override { return loss_->takes_yes_or_no(); }
  std::size_t sums_per_sample() const override { return loss_->sums_per_sample(); }
  bool gradient_reads_sums() const override { return loss_->gradient_reads_sums(); }
  Score score() const override { return loss_->score(); }

  void add_sums(ConstView /*output*/, AnyConstView /*target*/,
                std::span<double> /*sums*/) override {}
  double gradient(ConstView /*output*/, AnyConstView /*target*/, std::span<const double> /*sums*/,
                  std::int64_t /*global_batch*/, View /*diff*/) override {
    return 0;
  }
  Quality quality(std::span<const double> /*terms*/) const override { return {}; }

 private:
  std::unique_ptr<Loss> loss_;
};

}  // namespace halomesh
