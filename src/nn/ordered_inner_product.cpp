// SPDX-License-Identifier: Apache-2.0
// Inner products in a fixed order: see ordered_inner_product.hpp.
#include "src/nn/ordered_inner_product.hpp"

#include <algorithm>
#include <array>

namespace halomesh {
namespace {

// Sums that run side by side: element i is a term of sum i % kSums.
constexpr std::int64_t kSums = 64;
// Elements that a thread computes at once.
constexpr std::int64_t kBlock = 1024;

float dot(const float* a, const float* b, std::int64_t count) {
  std::array<float, kSums> sums{};
  const std::int64_t whole = count / kSums * kSums;
  for (std::int64_t i = 0; i < whole; i += kSums)
    for (std::int64_t k = 0; k < kSums; ++k)
      sums[static_cast<std::size_t>(k)] += a[i + k] * b[i + k];
  for (std::int64_t k = 0; k < count - whole; ++k)
    sums[static_cast<std::size_t>(k)] += a[whole + k] * b[whole + k];
  for (std::int64_t half = kSums / 2; half > 0; half /= 2)
    for (std::int64_t k = 0; k < half; ++k)
      sums[static_cast<std::size_t>(k)] += sums[static_cast<std::size_t>(k + half)];
  return sums[0];
}

}  // namespace

void OrderedInnerProduct::forward(std::int64_t batch, const float* src, const float* weight,
                                  const float* bias, float* dst) const {
#pragma omp parallel for schedule(static) if (out * in > 65536)
  for (std::int64_t o = 0; o < out; ++o)
    for (std::int64_t n = 0; n < batch; ++n)
      dst[n * out + o] = bias[o] + dot(weight + o * in, src + n * in, in);
}

void OrderedInnerProduct::backward_data(std::int64_t batch, const float* diff_dst,
                                        const float* weight, float* diff_src) const {
  const std::int64_t blocks = (in + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) if (out * in > 65536)
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t lo = block * kBlock, hi = std::min(lo + kBlock, in);
    for (std::int64_t n = 0; n < batch; ++n) {
      float* const to = diff_src + n * in;
      std::fill(to + lo, to + hi, 0.0F);
      for (std::int64_t o = 0; o < out; ++o) {
        const float* const row = weight + o * in;
        const float diff = diff_dst[n * out + o];
        for (std::int64_t i = lo; i < hi; ++i) to[i] += diff * row[i];
      }
    }
  }
}

void OrderedInnerProduct::backward_weights(std::int64_t batch, const float* src,
                                           const float* diff_dst, const ExactView& diff_weight,
                                           const ExactView& diff_bias) const {
#pragma omp parallel for schedule(static) if (out * in > 65536)
  for (std::int64_t o = 0; o < out; ++o) {
    double* __restrict const high = diff_weight.high + o * in;
    double* __restrict const low = diff_weight.low + o * in;
    for (std::int64_t n = 0; n < batch; ++n) {
      const float* const x = src + n * in;
      const float diff = diff_dst[n * out + o];
      for (std::int64_t i = 0; i < in; ++i)
        exact::add(static_cast<double>(diff * x[i]), high[i], low[i]);
      diff_bias.add(o, static_cast<double>(diff));
    }
  }
}

}  // namespace halomesh
