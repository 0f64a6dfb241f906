// SPDX-License-Identifier: Apache-2.0
// The mean squared error: see mean_squared_error.hpp.
#include "src/nn/losses/mean_squared_error.hpp"

#include "error.hpp"
#include "src/nn/losses/registry.hpp"

namespace halomesh {

void to_targets(std::span<const ChannelScale> scales, std::int64_t first,
                std::span<const float> outputs, std::span<float> targets) {
  for (std::size_t t = 0; t < outputs.size(); ++t) {
    const ChannelScale scale =
        scales.empty() ? ChannelScale{} : scales[static_cast<std::size_t>(first) + t];
    targets[t] = static_cast<float>(scale.mean + scale.deviation * outputs[t]);
  }
}

MeanSquaredError::MeanSquaredError(const Shape& output) : targets_(output.c) {
  require(output.c > 0 && output.spatial() == Spatial{1, 1, 1},
          text("a mean squared error of outputs of shape {}", output),
          "the last layer of the network must have one voxel, with a channel for each target");
}

void MeanSquaredError::scale_targets(const std::vector<ChannelScale>& scales) {
  require(std::ssize(scales) == targets_,
          text("scales of {} targets for a network of {}", scales.size(), targets_));
  scales_ = scales;
  predicted_.resize(scales_.size());
}

double MeanSquaredError::error_at(ConstView output, ConstView truth, std::int64_t i) const {
  const double y = output.data[i], t = truth.data[i];
  if (scales_.empty()) return y - t;
  const ChannelScale& scale =
      scales_[static_cast<std::size_t>(output.span.lo[kC] + i % output.sample_volume())];
  return y - (t - scale.mean) / scale.deviation;
}

std::size_t MeanSquaredError::sums_per_sample() const {
  return static_cast<std::size_t>(targets_) * kErrorSums;
}

void MeanSquaredError::add_sums(ConstView output, AnyConstView target, std::span<double> sums) {
  const ConstView truth = target.as<float>();
  const auto width = static_cast<std::size_t>(output.sample_volume()) * kErrorSums;
  const auto first = static_cast<std::size_t>(output.span.lo[kC]) * kErrorSums;
  for (std::int64_t n = 0; n < output.batch; ++n) {
    const float* predicted = samples_of(output, n, 1).data;
    if (!scales_.empty()) {
      to_targets(scales_, output.span.lo[kC], {predicted, width / kErrorSums}, predicted_);
      predicted = predicted_.data();
    }
    add_errors(predicted, samples_of(truth, n, 1).data,
               sums.subspan(static_cast<std::size_t>(n) * sums_per_sample() + first, width));
  }
}

double MeanSquaredError::gradient(ConstView output, AnyConstView target, std::span<const double>,
                                  std::int64_t global_batch, View diff) {
  const ConstView truth = target.as<float>();
  const auto terms = static_cast<double>(global_batch * targets_);
  const double scale = 1.0 / terms;
  double squares = 0;
  for (std::int64_t i = 0; i < output.batch * output.sample_volume(); ++i) {
    const double error = error_at(output, truth, i);
    squares += error * error;
    diff.data[i] = static_cast<float>(scale * (2.0 * error));
  }
  return squares / terms;
}

Quality MeanSquaredError::quality(std::span<const double> terms) const {
  Quality quality{
      mean_square_error(terms), static_cast<std::int64_t>(terms[0]), quality_of(terms), {}, 0};
  quality.score = mean_mae(quality.targets);
  if (scales_.empty()) return quality;
  double squares = 0;
  for (std::size_t t = 0; t < scales_.size(); ++t) {
    const double error = quality.targets[t].rmse / scales_[t].deviation;
    squares += error * error;
  }
  quality.loss = squares / static_cast<double>(targets_);
  return quality;
}

namespace {

const Registered<NamedSampleLoss> kMeanSquaredError([] {
  return NamedSampleLoss{{"mse", "the mean squared error",
                          [](const Shape& output, const LossSettings&) -> std::unique_ptr<Loss> {
                            return std::make_unique<MeanSquaredError>(output);
                          }}};
});

}  // namespace

}  // namespace halomesh
