// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent: see sgd.hpp.
#include "src/nn/optimizers/sgd.hpp"

#include <cmath>
#include <cstdint>

#include "error.hpp"
#include "simulation.hpp"
#include "src/nn/optimizers/registry.hpp"

namespace halomesh {

void validate(const SgdOptions& options) {
  if (!(options.momentum >= 0.0f && options.momentum < 1.0f))
    throw UsageError(fmt::format("--momentum {:g} is out of range", options.momentum),
                     "give at least 0 and below 1");
  if (!(options.weight_decay >= 0.0f && std::isfinite(options.weight_decay)))
    throw UsageError(fmt::format("--weight-decay {:g} is out of range", options.weight_decay),
                     "give a finite number of at least 0");
}

void sgd_step(const SgdOptions& options, float rate, std::span<const float> diffs,
              std::span<float> velocity, std::span<float> values) {
  if (diffs.size() != values.size() || velocity.size() != values.size())
    throw Error(fmt::format("optimizer step over {} parameters with {} gradients and {} velocities",
                            values.size(), diffs.size(), velocity.size()));
  if constexpr (simulation::kOn)
    return simulation::updated(5 * static_cast<std::int64_t>(diffs.size_bytes()));
  const float momentum = options.momentum, decay = options.weight_decay;
  const float* g = diffs.data();
  float* v = velocity.data();
  float* w = values.data();
  const auto size = static_cast<std::int64_t>(values.size());
  if (options.nesterov) {
#pragma omp parallel for schedule(static) if (size > 65536)
    for (std::int64_t i = 0; i < size; ++i) {
      const float step = rate * (g[i] + decay * w[i]);
      v[i] = momentum * v[i] + step;
      w[i] -= momentum * v[i] + step;
    }
    return;
  }
#pragma omp parallel for schedule(static) if (size > 65536)
  for (std::int64_t i = 0; i < size; ++i) {
    v[i] = momentum * v[i] + rate * (g[i] + decay * w[i]);
    w[i] -= v[i];
  }
}

Sgd::Sgd(const SgdOptions& options) : options_(options) { validate(options); }

void Sgd::update(Parameters& parameters, const Update& update) {
  for (const HolderGroup& group : parameters.groups()) {
    const auto at = static_cast<std::size_t>(group.trained_offset());
    const auto count = static_cast<std::size_t>(group.trained_volume());
    sgd_step(options_, update.rate, parameters.diffs().subspan(at, count),
             parameters.state(0).subspan(at, count), parameters.values().subspan(at, count));
  }
}

namespace {

std::unique_ptr<Optimizer> made(const OptimizerOptions& o, bool nesterov) {
  return std::make_unique<Sgd>(
      SgdOptions{static_cast<float>(o.momentum), static_cast<float>(o.weight_decay), nesterov});
}

const Registered<NamedOptimizer> kHeavyBall([] {
  return NamedOptimizer{"sgd", [](const OptimizerOptions& o) { return made(o, false); }};
});
const Registered<NamedOptimizer> kNesterov([] {
  return NamedOptimizer{"nesterov", [](const OptimizerOptions& o) { return made(o, true); }};
});

}  // namespace

}  // namespace halomesh
