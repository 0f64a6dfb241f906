// SPDX-License-Identifier: Apache-2.0
// The two moments of Adam and the direction that they give, shared by AdamW and LAMB.
#pragma once

#include <cmath>
#include <cstdint>

#include "src/nn/optimizer.hpp"

namespace halomesh {

/// Throws UsageError unless 0 <= both betas < 1, epsilon > 0 in fp32 and weight_decay >= 0.
void validate_adam(const OptimizerOptions& options);

/// The constants of update number t = 1, 2, ... for elements with the gradient g:
///   m <- b1 m + (1 - b1) g;   v <- b2 v + (1 - b2) g^2
///   direction = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon)
/// Kingma & Ba, ICLR 2015 (arXiv 1412.6980), algorithm 1.
class AdamMoments {
 public:
  AdamMoments(const OptimizerOptions& options, std::int64_t t)
      : beta1_(static_cast<float>(options.betas[0])),
        beta2_(static_cast<float>(options.betas[1])),
        rest1_(static_cast<float>(1 - options.betas[0])),
        rest2_(static_cast<float>(1 - options.betas[1])),
        scale1_(static_cast<float>(1 / (1 - std::pow(options.betas[0], t)))),
        scale2_(static_cast<float>(1 / (1 - std::pow(options.betas[1], t)))),
        epsilon_(static_cast<float>(options.epsilon)) {}

  /// Updates one element's moments and returns its direction.
  float direction(float g, float& m, float& v) const {
    m = beta1_ * m + rest1_ * g;
    v = beta2_ * v + rest2_ * g * g;
    return m * scale1_ / (std::sqrt(v * scale2_) + epsilon_);
  }

 private:
  float beta1_, beta2_, rest1_, rest2_, scale1_, scale2_, epsilon_;
};

}  // namespace halomesh
