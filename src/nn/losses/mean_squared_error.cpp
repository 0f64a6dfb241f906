// SPDX-License-Identifier: Apache-2.0
// The mean squared error: see mean_squared_error.hpp.
#include "src/nn/losses/mean_squared_error.hpp"

#include "error.hpp"
#include "src/nn/losses/registry.hpp"

namespace halomesh {

MeanSquaredError::MeanSquaredError(const Shape& output) : targets_(output.c) {
  require(output.c > 0 && output.spatial() == Spatial{1, 1, 1},
          text("a mean squared error of outputs of shape {}", output),
          "the last layer of the network must have one voxel, with a channel for each target");
}

std::size_t MeanSquaredError::sums_per_sample() const {
  return static_cast<std::size_t>(targets_) * kErrorSums;
}

void MeanSquaredError::add_sums(ConstView output, AnyConstView target, std::span<double> sums) {
  const ConstView truth = target.as<float>();
  const auto width = static_cast<std::size_t>(output.sample_volume()) * kErrorSums;
  const auto first = static_cast<std::size_t>(output.span.lo[kC]) * kErrorSums;
  for (std::int64_t n = 0; n < output.batch; ++n)
    add_errors(samples_of(output, n, 1).data, samples_of(truth, n, 1).data,
               sums.subspan(static_cast<std::size_t>(n) * sums_per_sample() + first, width));
}

double MeanSquaredError::gradient(ConstView output, AnyConstView target, std::span<const double>,
                                  std::int64_t global_batch, View diff) {
  const ConstView truth = target.as<float>();
  const auto terms = static_cast<double>(global_batch * targets_);
  const double scale = 1.0 / terms;
  double squares = 0;
  for (std::int64_t i = 0; i < output.batch * output.sample_volume(); ++i) {
    const double error = static_cast<double>(output.data[i]) - truth.data[i];
    squares += error * error;
    diff.data[i] = static_cast<float>(scale * (2.0 * error));
  }
  return squares / terms;
}

Quality MeanSquaredError::quality(std::span<const double> terms) const {
  Quality quality{
      mean_square_error(terms), static_cast<std::int64_t>(terms[0]), quality_of(terms), {}, 0};
  quality.score = mean_mae(quality.targets);
  return quality;
}

namespace {

const Registered<NamedLoss> kMeanSquaredError([] {
  return NamedLoss{"mse", "the mean squared error", DataType::kFloat32,
                   [](const Shape& output, const LossSettings&) -> std::unique_ptr<Loss> {
                     return std::make_unique<MeanSquaredError>(output);
                   }};
});

}  // namespace

}  // namespace halomesh
