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

}  // namespace halomesh
