// SPDX-License-Identifier: Apache-2.0
// Addition of flat arrays: see add.hpp.
#include "src/nn/add.hpp"

#include "simulation.hpp"

namespace halomesh {

void add_values(float* __restrict sums, const float* __restrict values, std::int64_t count) {
  if constexpr (simulation::kOn)
    return simulation::added(count * static_cast<std::int64_t>(sizeof(float)));
    // Starting a team of threads takes a few microseconds, as long as adding some 64 KiB.
#pragma omp parallel for simd schedule(static) if (count > 32768)
  for (std::int64_t i = 0; i < count; ++i) sums[i] += values[i];
}

void scale_values(float* values, float factor, std::int64_t count) {
  if constexpr (simulation::kOn)
    return simulation::updated(2 * count * static_cast<std::int64_t>(sizeof(float)));
#pragma omp parallel for simd schedule(static) if (count > 32768)
  for (std::int64_t i = 0; i < count; ++i) values[i] *= factor;
}

namespace {

template <bool kKeeps, bool kSends>
void round_each(float* __restrict values, float* __restrict lost, Bfloat16* __restrict rounded,
                std::int64_t count) {
#pragma omp parallel for simd schedule(static) if (parallel : count > 32768)
  for (std::int64_t i = 0; i < count; ++i) {
    const Bfloat16 nearest(values[i]);
    const auto value = static_cast<float>(nearest);
    if constexpr (kKeeps) lost[i] += values[i] - value;
    if constexpr (kSends) rounded[i] = nearest;
    values[i] = value;
  }
}

}  // namespace

void round_values(float* values, float* lost, Bfloat16* rounded, std::int64_t count) {
  if constexpr (simulation::kOn)
    return simulation::copied(count * static_cast<std::int64_t>(sizeof(float)));
  if (lost != nullptr)
    rounded != nullptr ? round_each<true, true>(values, lost, rounded, count)
                       : round_each<true, false>(values, lost, rounded, count);
  else
    rounded != nullptr ? round_each<false, true>(values, lost, rounded, count)
                       : round_each<false, false>(values, lost, rounded, count);
}

void widen_values(float* __restrict values, const Bfloat16* __restrict rounded,
                  std::int64_t count) {
  if constexpr (simulation::kOn)
    return simulation::copied(count * static_cast<std::int64_t>(sizeof(float)));
#pragma omp parallel for simd schedule(static) if (parallel : count > 32768)
  for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(rounded[i]);
}

void add_values(float* __restrict sums, const Bfloat16* __restrict rounded, std::int64_t count) {
  if constexpr (simulation::kOn)
    return simulation::added(count * static_cast<std::int64_t>(sizeof(float)));
#pragma omp parallel for simd schedule(static) if (parallel : count > 32768)
  for (std::int64_t i = 0; i < count; ++i) sums[i] += static_cast<float>(rounded[i]);
}

}  // namespace halomesh
