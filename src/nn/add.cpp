// SPDX-License-Identifier: Apache-2.0
// Addition of flat arrays: see add.hpp.
#include "src/nn/add.hpp"

#include "simulation.hpp"

namespace halomesh {

void add_values(float* __restrict sums, const float* __restrict values, std::int64_t count) {
  if constexpr (simulation::kOn)
    return simulation::added(count * static_cast<std::int64_t>(sizeof(float)));
    // A team costs a few microseconds to start: as much as adding some 64 KiB.
#pragma omp parallel for simd schedule(static) if (count > 32768)
  for (std::int64_t i = 0; i < count; ++i) sums[i] += values[i];
}

void scale_values(float* values, float factor, std::int64_t count) {
  if constexpr (simulation::kOn)
    return simulation::updated(2 * count * static_cast<std::int64_t>(sizeof(float)));
#pragma omp parallel for simd schedule(static) if (count > 32768)
  for (std::int64_t i = 0; i < count; ++i) values[i] *= factor;
}

}  // namespace halomesh
