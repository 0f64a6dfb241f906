// SPDX-License-Identifier: Apache-2.0
// The mean absolute error, by which regressions are judged, as a loss.
#include <cmath>

#include "src/nn/losses/mean_squared_error.hpp"
#include "src/nn/losses/registry.hpp"

namespace halomesh {
namespace {

/// L = 1/(B*T) sum |p - t| / s over the B samples of all replicas and the T targets of each, with p
/// and s as in MeanSquaredError; dL/dy = sign(p - t) / (B*T), 0 where they are equal.
class MeanAbsoluteError final : public MeanSquaredError {
 public:
  using MeanSquaredError::MeanSquaredError;

  double gradient(ConstView output, AnyConstView target, std::span<const double>,
                  std::int64_t global_batch, View diff) override {
    const ConstView truth = target.as<float>();
    const auto terms = static_cast<double>(global_batch * target_shape().c);
    double sum = 0;
    for (std::int64_t i = 0; i < output.batch * output.sample_volume(); ++i) {
      const double error = error_at(output, truth, i);
      sum += std::abs(error);
      // A NaN must propagate: its comparison with 0 is false.
      const double sign = error == 0 ? 0 : error / std::abs(error);
      diff.data[i] = static_cast<float>(sign / terms);
    }
    return sum / terms;
  }
  Quality quality(std::span<const double> terms) const override {
    Quality quality = MeanSquaredError::quality(terms);
    double sum = 0;
    for (std::size_t t = 0; t < quality.targets.size(); ++t)
      sum += quality.targets[t].mae / scale_of(t).deviation;
    quality.loss = sum / static_cast<double>(quality.targets.size());
    return quality;
  }
};

const Registered<NamedSampleLoss> kMeanAbsoluteError([] {
  return NamedSampleLoss{{"mae", "the mean absolute error",
                          [](const Shape& output, const LossSettings&) -> std::unique_ptr<Loss> {
                            return std::make_unique<MeanAbsoluteError>(output);
                          }}};
});

}  // namespace
}  // namespace halomesh
