// SPDX-License-Identifier: Apache-2.0
// LAMB: AdamW whose step is scaled, tensor by tensor, to the norm of the weights.
#pragma once

#include <string>
#include <vector>

#include "src/nn/optimizers/adam_moments.hpp"
#include "src/nn/square_sums.hpp"

namespace halomesh {

/// Update t = 1, 2, ..., with the direction of AdamMoments, for each element of each tensor:
///   u = direction + weight_decay * w
///   r = |w| / |u|, 2-norms of the whole tensor before the update; 1 where one of them is 0
///   w <- w - rate * r * u
/// and r = 1 without weight decay. All tensors have decay and ratio, biases included. Before, the
/// gradient is scaled to a norm of at most 1: default_clip_norm(). You et al., ICLR 2020 (arXiv
/// 1904.00962), algorithm 2, in the form of FusedLAMB of github.com/NVIDIA/apex
/// (csrc/multi_tensor_lamb.cu), which MLPerf HPC's DeepCAM uses.
///
/// Norms take each slice from one of its holders; update() sums them over the parts in one message
/// for all tensors.
class Lamb : public Optimizer {
 public:
  /// Throws UsageError as validate_adam() does.
  explicit Lamb(const OptimizerOptions& options);

  std::string title() const override { return "LAMB"; }
  std::vector<std::string> states() const override { return {"first_moment", "second_moment"}; }
  std::int64_t traffic() const override { return 15; }  // 3 of them by clipping, 2 by norms
  double default_clip_norm() const override { return 1; }
  void update(Parameters& parameters, const Update& update) override;

 private:
  OptimizerOptions options_;
  NormSums norms_;  // norms of the weights and of their steps
};

}  // namespace halomesh
