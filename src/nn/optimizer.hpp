// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum and coupled weight decay over flat memory.
#pragma once

#include <span>

namespace halomesh {

/// The settings that stay the same over a run.
struct SgdOptions {
  float momentum = 0.9f;
  float weight_decay = 0.0f;
};

/// Throws UsageError unless 0 <= momentum < 1 and weight_decay >= 0.
void validate(const SgdOptions& options);

/// One step for each element i, in place:
///   v[i] <- momentum * v[i] + rate * (g[i] + weight_decay * w[i]);  w[i] <- w[i] - v[i]
/// `values` w, `diffs` g and `velocity` v (zeros before step 0) have one length and do not
/// overlap; all belong to the caller. Element-wise, so the result does not depend on how parameters
/// are sliced over ranks. Local; allocates nothing; throws Error when lengths differ.
/// Without weight decay this is the SGD of Keras with momentum and without Nesterov; with it, the
/// optimizer "SGDWD" of github.com/mlcommons/hpc_results_v0.7: Fujitsu/benchmarks/cosmoflow/
/// implementations/implementation_fugaku_open/cosmoflow-benchmark/utils/
/// mesh_momentum_weight_decay.py, which decays all parameters, biases included.
void sgd_step(const SgdOptions& options, float rate, std::span<const float> diffs,
              std::span<float> velocity, std::span<float> values);

}  // namespace halomesh
