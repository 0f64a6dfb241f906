// SPDX-License-Identifier: Apache-2.0
// Quality by target: see target_errors.hpp.
#include "src/nn/target_errors.hpp"

#include <cmath>
#include <limits>

namespace halomesh {

double mean_mae(std::span<const TargetQuality> targets) {
  double sum = 0;
  for (const TargetQuality& t : targets) sum += t.mae;
  return sum / static_cast<double>(targets.size());
}

double mean_rmse(std::span<const TargetQuality> targets) {
  double sum = 0;
  for (const TargetQuality& t : targets) sum += t.rmse * t.rmse;
  return std::sqrt(sum / static_cast<double>(targets.size()));
}

void TargetErrors::add(const float* prediction, const float* target) {
  for (std::size_t t = 0; t < targets_; ++t) {
    const double value = target[t], error = prediction[t] - value;
    double* const sum = sums_.data() + t * kSums;
    sum[0] += 1;
    sum[1] += error;
    sum[2] += std::abs(error);
    sum[3] += error * error;
    sum[4] += value;
    sum[5] += value * value;
  }
}

double TargetErrors::mean_square_error() const {
  double squares = 0;
  for (std::size_t t = 0; t < targets_; ++t) squares += sums_[t * kSums + 3];
  return squares / (sums_[0] * static_cast<double>(targets_));
}

std::vector<TargetQuality> TargetErrors::quality() const {
  std::vector<TargetQuality> all;
  for (std::size_t t = 0; t < targets_; ++t) {
    const double* const sum = sums_.data() + t * kSums;
    const double n = sum[0], squares = sum[3] / n, mean = sum[4] / n;
    const double variance = sum[5] / n - mean * mean;
    // What rounding leaves of the variance of equal values is not one.
    const bool varies = variance > 1e-14 * mean * mean;
    all.push_back({sum[2] / n, std::sqrt(squares),
                   varies ? 1 - squares / variance : std::numeric_limits<double>::quiet_NaN(),
                   sum[1] / n});
  }
  return all;
}

}  // namespace halomesh
