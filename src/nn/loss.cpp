// SPDX-License-Identifier: Apache-2.0
// Losses: see loss.hpp.
#include "src/nn/loss.hpp"

#include <algorithm>
#include <cmath>

#include "error.hpp"

namespace halomesh {
namespace {

// Messages are formatted only when needed: a step allocates nothing.
void require_match(ConstView a, ConstView b, std::int64_t count) {
  if (a.span != b.span || a.batch != b.batch)
    throw Error(fmt::format("loss of {} predictions of shape {} against {} targets of shape {}",
                            a.batch, a.span.shape(), b.batch, b.span.shape()),
                "the last layer of the network must have as many channels as the data has targets");
  if (count < 0 || count > a.batch)
    throw Error(fmt::format("loss over {} samples of a local batch of {}", count, a.batch));
}

}  // namespace

ErrorSums& ErrorSums::operator+=(const ErrorSums& other) {
  squared += other.squared;
  absolute += other.absolute;
  samples += other.samples;
  return *this;
}

ErrorSums error_sums(ConstView prediction, ConstView target, std::int64_t count) {
  require_match(prediction, target, count);
  ErrorSums sums;
  sums.samples = count;
  const std::int64_t size = count * prediction.sample_volume();
  for (std::int64_t i = 0; i < size; ++i) {
    const double error = static_cast<double>(prediction.data[i]) - target.data[i];
    sums.squared += error * error;
    sums.absolute += std::abs(error);
  }
  return sums;
}

ErrorSums loss_gradient(LossKind kind, ConstView prediction, ConstView target, std::int64_t count,
                        std::int64_t global_batch, View diff) {
  require_match(prediction, diff, count);
  if (global_batch <= 0) throw Error(fmt::format("loss over a global batch of {}", global_batch));
  const ErrorSums sums = error_sums(prediction, target, count);
  const std::int64_t volume = prediction.sample_volume();
  const double scale = 1.0 / (static_cast<double>(global_batch) * static_cast<double>(volume));
  for (std::int64_t i = 0; i < count * volume; ++i) {
    const double error = static_cast<double>(prediction.data[i]) - target.data[i];
    // The last alternative is 0 for equality and NaN for NaN.
    const double sign = error > 0.0 ? 1.0 : (error < 0.0 ? -1.0 : error);
    diff.data[i] =
        static_cast<float>(scale * (kind == LossKind::kMeanSquaredError ? 2.0 * error : sign));
  }
  std::fill(diff.data + count * volume, diff.data + diff.batch * volume, 0.0f);
  return sums;
}

}  // namespace halomesh
