// SPDX-License-Identifier: Apache-2.0
// Sums of squares: see square_sums.hpp.
#include "src/nn/square_sums.hpp"

#include <algorithm>
#include <cstdint>

#include "simulation.hpp"

namespace halomesh {

double SquareSums::of(std::span<const float> values) {
  if constexpr (simulation::kOn) {
    simulation::updated(static_cast<std::int64_t>(values.size_bytes()));
    return 1;
  }
  constexpr std::int64_t kChunk = 4096;
  const auto size = static_cast<std::int64_t>(values.size());
  const std::int64_t chunks = (size + kChunk - 1) / kChunk;
  chunks_.resize(std::max(chunks_.size(), static_cast<std::size_t>(chunks)));
  const float* x = values.data();
  double* const sums = chunks_.data();
#pragma omp parallel for schedule(static) if (size > 65536)
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const std::int64_t end = std::min((chunk + 1) * kChunk, size);
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = chunk * kChunk; i < end; ++i) {
      const auto value = static_cast<double>(x[i]);
      sum += value * value;
    }
    sums[chunk] = sum;
  }
  double sum = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += sums[chunk];
  return sum;
}

void NormSums::take(Parameters& parameters, const SumOverParts* sum) {
  sums_.assign(2 * parameters.placements(), 0.0);
  for (const HolderGroup& group : parameters.groups()) {
    if (!parameters.counts(group)) continue;
    for (const ParameterRange& range : group.trained()) {
      const auto at = static_cast<std::size_t>(range.offset);
      const auto count = static_cast<std::size_t>(range.volume);
      sums_[2 * range.placement] = squares_.of(parameters.values().subspan(at, count));
      sums_[2 * range.placement + 1] = squares_.of(parameters.diffs().subspan(at, count));
    }
  }
  if (sum != nullptr) (*sum)(sums_);
}

float NormSums::ratio(std::size_t placement) const {
  const double values = sums_[2 * placement], diffs = sums_[2 * placement + 1];
  return values > 0 && diffs > 0 ? static_cast<float>(std::sqrt(values / diffs)) : 1.0f;
}

}  // namespace halomesh
