// SPDX-License-Identifier: Apache-2.0
// How well each target of a regression is predicted, from sums over samples.
// Local sums only: the caller adds them up over ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace halomesh {

/// The quality of the predictions of one target over samples.
struct TargetQuality {
  double mae = 0, rmse = 0;  ///< mean absolute and root mean square error
  double r2 = 0;             ///< 1 - mean square error / variance of the target; NaN if that is 0
  double bias = 0;           ///< mean of prediction - target
};

/// The mean of the targets' MAE.
double mean_mae(std::span<const TargetQuality> targets);
/// The root of the mean of the targets' mean square errors.
double mean_rmse(std::span<const TargetQuality> targets);

/// Sums of errors, target by target.
class TargetErrors {
 public:
  /// At least one target.
  explicit TargetErrors(std::size_t targets) : targets_(targets), sums_(targets * kSums) {}

  /// Adds a sample: as many predictions and true values as there are targets. Allocates nothing.
  void add(const float* prediction, const float* target);
  /// To be added up element by element over all who have samples, before quality().
  std::span<double> sums() { return sums_; }
  std::int64_t samples() const { return static_cast<std::int64_t>(sums_[0]); }
  /// Over samples and targets; like quality(), NaN for no sample at all.
  double mean_square_error() const;
  std::vector<TargetQuality> quality() const;

 private:
  // Per target: samples, error, |error|, error^2, target, target^2.
  static constexpr std::size_t kSums = 6;
  std::size_t targets_;
  std::vector<double> sums_;
};

}  // namespace halomesh
