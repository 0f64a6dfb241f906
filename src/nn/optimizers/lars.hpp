// SPDX-License-Identifier: Apache-2.0
// LARS: SGD with momentum whose rate is scaled, tensor by tensor, to the norm of the weights.
#pragma once

#include <string>
#include <vector>

#include "src/nn/optimizer.hpp"
#include "src/nn/square_sums.hpp"

namespace halomesh {

/// Throws UsageError unless 0 <= momentum < 1, weight_decay and epsilon >= 0, lars_coefficient > 0.
void validate_lars(const OptimizerOptions& options);

/// For each element of each tensor:
///   r = lars_coefficient |w| / (|g| + weight_decay |w| + epsilon), 2-norms of the whole tensor
///   before
///       the update; 1 where |w| or |g| is 0
///   v <- momentum * v + rate * r * (g + weight_decay * w);  w <- w - v
/// Tensors with one number per channel (biases, scales of norms) have r = 1 and no weight decay
/// unless `lars_biases`. You, Gitman & Ginsburg, arXiv 1708.03888, algorithm 1, in the form of the
/// LARSOptimizer of github.com/mlcommons/training (image_classification/tensorflow): the scaled
/// rate is in the momentum, the decay in the gradient.
///
/// Norms take each slice from one of its holders; update() sums them over the parts in one message
/// for all tensors.
class Lars : public Optimizer {
 public:
  /// Throws UsageError as validate_lars() does.
  explicit Lars(const OptimizerOptions& options);

  std::string title() const override { return "LARS"; }
  std::vector<std::string> states() const override { return {"optimizer"}; }
  std::int64_t traffic() const override { return 7; }  // 2 of them by norms
  void update(Parameters& parameters, const Update& update) override;

 private:
  bool scales(const Parameters& parameters, std::size_t placement) const {
    return options_.lars_biases || !parameters.one_per_channel(placement);
  }

  OptimizerOptions options_;
  NormSums norms_;
};

}  // namespace halomesh
