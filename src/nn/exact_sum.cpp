// SPDX-License-Identifier: Apache-2.0
// Sums without rounding errors: see exact_sum.hpp.
#include "src/nn/exact_sum.hpp"

namespace halomesh {

bool take_sums(const ExactView& sums, std::int64_t count, float* values) {
  double* __restrict const high = sums.high;
  double* __restrict const low = sums.low;
  int wrong = 0;
#pragma omp parallel for simd schedule(static) reduction(| : wrong) if (parallel : count > 65536)
  for (std::int64_t i = 0; i < count; ++i) {
    const double sum = exact::value(high[i], low[i]);
    wrong |= sum - sum == 0 ? 0 : 1;  // for an infinity or a NaN, sum - sum is not 0
    values[i] = static_cast<float>(sum);
    high[i] = low[i] = 0;
  }
  return wrong == 0;
}

}  // namespace halomesh
