// SPDX-License-Identifier: Apache-2.0
// The quality of predictions of each target of a regression, from sums over samples. Local sums
// only: the caller adds them up over ranks.
#pragma once

#include <cstddef>
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

/// The number of sums per target: samples, error, |error|, error^2, target, target^2. They are to
/// be added up element by element over all holders of samples.
inline constexpr std::size_t kErrorSums = 6;

/// Adds a sample to the sums of its targets: sums.size() / kErrorSums predictions and true values.
/// Allocates nothing.
void add_errors(const float* prediction, const float* target, std::span<double> sums);

/// The mean over samples and targets; like quality_of(), NaN without samples.
double mean_square_error(std::span<const double> sums);
std::vector<TargetQuality> quality_of(std::span<const double> sums);

}  // namespace halomesh
