// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum, optionally Nesterov's, and coupled weight decay.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/nn/optimizer.hpp"

namespace halomesh {

/// The settings that stay constant over a run.
struct SgdOptions {
  float momentum = 0.9f;
  float weight_decay = 0.0f;
  bool nesterov = false;
};

/// Throws UsageError unless 0 <= momentum < 1 and weight_decay >= 0.
void validate(const SgdOptions& options);

/// One step for each element i, in place:
///   v[i] <- momentum * v[i] + rate * (g[i] + weight_decay * w[i]);  w[i] <- w[i] - v[i]
/// and with nesterov
///   s <- rate * (g[i] + weight_decay * w[i]);  v[i] <- momentum * v[i] + s;
///   w[i] <- w[i] - (momentum * v[i] + s)
/// `values` w, `diffs` g and `velocity` v (zeros before step 0) have one length and do not overlap;
/// all belong to the caller. Element-wise, so the result does not depend on how parameters are
/// sliced over ranks. Local; allocates nothing; throws Error when lengths differ. Without weight
/// decay this is the SGD of Keras with momentum, with and without Nesterov; with it, the optimizer
/// "SGDWD" of github.com/mlcommons/hpc_results_v0.7: Fujitsu/benchmarks/cosmoflow/
/// implementations/implementation_fugaku_open/cosmoflow-benchmark/utils/
/// mesh_momentum_weight_decay.py, which decays all parameters, biases included. PyTorch's SGD keeps
/// v / rate, which is equivalent as long as the rate is constant. Nesterov's step in this form:
/// Sutskever et al., ICML 2013, section 2, with the substitution of section A.1 there.
void sgd_step(const SgdOptions& options, float rate, std::span<const float> diffs,
              std::span<float> velocity, std::span<float> values);

/// sgd_step() on all parameters of a part.
class Sgd : public Optimizer {
 public:
  /// Throws UsageError as validate() does.
  explicit Sgd(const SgdOptions& options = {});

  std::string title() const override { return "SGD"; }
  std::vector<std::string> states() const override { return {"optimizer"}; }
  std::int64_t traffic() const override { return 5; }
  void update(Parameters& parameters, const Update& update) override;

 private:
  SgdOptions options_;
};

}  // namespace halomesh
