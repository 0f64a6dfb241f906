// SPDX-License-Identifier: Apache-2.0
// Losses of a regression and their gradients with respect to the predictions.
// Local sums only: the caller adds them up over ranks.
#pragma once

#include <cstdint>

#include "src/nn/tensor.hpp"

namespace halomesh {

enum class LossKind { kMeanSquaredError, kMeanAbsoluteError };

/// Sums over local samples and targets. Added up over all ranks and divided by (samples * targets)
/// they are the mean squared and the mean absolute error.
struct ErrorSums {
  double squared = 0.0, absolute = 0.0;
  std::int64_t samples = 0;  ///< samples summed

  ErrorSums& operator+=(const ErrorSums& other);
};

/// Sums of (p - t)^2 and |p - t| over the first `count` samples of the views, added in double in
/// memory order. `prediction` and `target` span the same box; samples from `count` on (the padding
/// of a ragged last batch) are not read. Local. Throws Error when the views do not match.
ErrorSums error_sums(ConstView prediction, ConstView target, std::int64_t count);

/// error_sums(), and writes the gradient of the loss, a mean over the `global_batch` samples of
/// all ranks and the T targets of each, to `diff` (all samples; zero from `count` on):
///   mean squared error:  L = 1/(B*T) sum (p - t)^2,  dL/dp = 2 (p - t) / (B*T)
///   mean absolute error: L = 1/(B*T) sum |p - t|,    dL/dp = sign(p - t) / (B*T), 0 where equal
/// NaN in a prediction propagates to both the sums and `diff`.
ErrorSums loss_gradient(LossKind kind, ConstView prediction, ConstView target, std::int64_t count,
                        std::int64_t global_batch, View diff);

}  // namespace halomesh
