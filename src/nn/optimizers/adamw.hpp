// SPDX-License-Identifier: Apache-2.0
// AdamW: Adam with decoupled weight decay.
#pragma once

#include <string>
#include <vector>

#include "src/nn/optimizers/adam_moments.hpp"

namespace halomesh {

/// Update t = 1, 2, ..., with the direction u of AdamMoments, for each element:
///   w <- (1 - rate * weight_decay) w - rate * u
/// Loshchilov & Hutter, ICLR 2019 (arXiv 1711.05101), algorithm 2, with the rate in the decay as in
/// torch.optim.AdamW. Element-wise: local.
class AdamW : public Optimizer {
 public:
  /// Throws UsageError as validate_adam() does.
  explicit AdamW(const OptimizerOptions& options);

  std::string title() const override { return "AdamW"; }
  std::vector<std::string> states() const override { return {"first_moment", "second_moment"}; }
  std::int64_t traffic() const override { return 7; }
  void update(Parameters& parameters, const Update& update) override;

 private:
  OptimizerOptions options_;
};

}  // namespace halomesh
