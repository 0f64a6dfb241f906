// SPDX-License-Identifier: Apache-2.0
// AdamW: see adamw.hpp.
#include "src/nn/optimizers/adamw.hpp"

#include "simulation.hpp"
#include "src/nn/optimizers/registry.hpp"

namespace halomesh {

AdamW::AdamW(const OptimizerOptions& options) : options_(options) { validate_adam(options); }

void AdamW::update(Parameters& parameters, const Update& update) {
  const std::int64_t size = parameters.size();
  if constexpr (simulation::kOn)
    return simulation::updated(traffic() * size * static_cast<std::int64_t>(sizeof(float)));
  const AdamMoments moments(options_, update.number + 1);
  const float rate = update.rate;
  const auto decay = static_cast<float>(options_.weight_decay);
  const auto kept = static_cast<float>(1 - static_cast<double>(rate) * decay);
  const float* g = parameters.diffs().data();
  float *m = parameters.state(0).data(), *v = parameters.state(1).data();
  float* w = parameters.values().data();
  for (const HolderGroup& group : parameters.groups()) {
    const std::int64_t begin = group.trained_offset(), end = begin + group.trained_volume();
#pragma omp parallel for simd schedule(static) if (parallel : end - begin > 65536)
    for (std::int64_t i = begin; i < end; ++i)
      w[i] = kept * w[i] - rate * moments.direction(g[i], m[i], v[i]);
  }
}

namespace {

const Registered<NamedOptimizer> kAdamW([] { return NamedOptimizer{"adamw", make_one<AdamW>}; });

}  // namespace

}  // namespace halomesh
