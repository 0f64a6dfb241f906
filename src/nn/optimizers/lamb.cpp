// SPDX-License-Identifier: Apache-2.0
// LAMB: see lamb.hpp.
#include "src/nn/optimizers/lamb.hpp"

#include "simulation.hpp"
#include "src/nn/optimizers/registry.hpp"

namespace halomesh {

Lamb::Lamb(const OptimizerOptions& options) : options_(options) { validate_adam(options); }

void Lamb::update(Parameters& parameters, const Update& update) {
  const AdamMoments moments(options_, update.number + 1);
  const std::int64_t size = parameters.size();
  const auto decay = static_cast<float>(options_.weight_decay);
  float *u = parameters.diffs().data(), *w = parameters.values().data();
  float *m = parameters.state(0).data(), *v = parameters.state(1).data();
  if constexpr (simulation::kOn) {
    simulation::updated(10 * size * static_cast<std::int64_t>(sizeof(float)));
  } else {
    for (const HolderGroup& group : parameters.groups()) {
      const std::int64_t begin = group.trained_offset(), end = begin + group.trained_volume();
#pragma omp parallel for simd schedule(static) if (parallel : end - begin > 65536)
      for (std::int64_t i = begin; i < end; ++i)
        u[i] = moments.direction(u[i], m[i], v[i]) + decay * w[i];
    }
  }
  if (decay > 0) norms_.take(parameters, update.sum);
  if constexpr (simulation::kOn) return;
  for (const HolderGroup& group : parameters.groups())
    for (const ParameterRange& range : group.trained()) {
      const float step = update.rate * (decay > 0 ? norms_.ratio(range.placement) : 1.0f);
      const std::int64_t begin = range.offset, end = begin + range.volume;
#pragma omp parallel for simd schedule(static) if (parallel : end - begin > 65536)
      for (std::int64_t i = begin; i < end; ++i) w[i] -= step * u[i];
    }
}

namespace {

const Registered<NamedOptimizer> kLamb([] { return NamedOptimizer{"lamb", make_one<Lamb>}; });

}  // namespace

}  // namespace halomesh
