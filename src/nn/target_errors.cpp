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

void add_errors(const float* prediction, const float* target, std::span<double> sums) {
  for (std::size_t t = 0; t < sums.size() / kErrorSums; ++t) {
    const double value = target[t], error = prediction[t] - value;
    double* const sum = sums.data() + t * kErrorSums;
    sum[0] += 1;
    sum[1] += error;
    sum[2] += std::abs(error);
    sum[3] += error * error;
    sum[4] += value;
    sum[5] += value * value;
  }
}

double mean_square_error(std::span<const double> sums) {
  double squares = 0;
  const std::size_t targets = sums.size() / kErrorSums;
  for (std::size_t t = 0; t < targets; ++t) squares += sums[t * kErrorSums + 3];
  return squares / (sums[0] * static_cast<double>(targets));
}

std::vector<TargetQuality> quality_of(std::span<const double> sums) {
  std::vector<TargetQuality> all;
  for (; !sums.empty(); sums = sums.subspan(kErrorSums)) {
    const double n = sums[0], squares = sums[3] / n, mean = sums[4] / n;
    const double variance = sums[5] / n - mean * mean;
    // A remainder from rounding, for equal values, is not a variance.
    const bool varies = variance > 1e-14 * mean * mean;
    all.push_back({sums[2] / n, std::sqrt(squares),
                   varies ? 1 - squares / variance : std::numeric_limits<double>::quiet_NaN(),
                   sums[1] / n});
  }
  return all;
}

}  // namespace halomesh
