// SPDX-License-Identifier: Apache-2.0
// Loops of multiply-adds in registers: see peak_loops.hpp.
// Chooses the vectors; the caller measures the time.
#include "src/nn/kernels/peak_loops.hpp"

#if defined(__ARM_FEATURE_SVE)
#include <arm_sve.h>
#endif

namespace halomesh {
inline namespace HALOMESH_VECTORS {
namespace {

constexpr float kFactor = 0.999f, kTerm = 1e-3f;  // converges to 1: no overflow, no denormals
constexpr int kChains = 12;  // independent: latency of 4 to 9 cycles, 1 or 2 per cycle

thread_local volatile float sink;  // keeps compilers from removing the loops below

/// A different value for each chain: equal chains would be computed only once.
float start(int chain) { return kTerm * static_cast<float>(chain); }

#if defined(__ARM_FEATURE_SVE)
double multiply_adds(std::int64_t rounds) {
  const svbool_t all = svptrue_b32();
  const svfloat32_t m = svdup_n_f32(kFactor), t = svdup_n_f32(kTerm);
  svfloat32_t a0 = svdup_n_f32(start(0)), a1 = svdup_n_f32(start(1)), a2 = svdup_n_f32(start(2));
  svfloat32_t a3 = svdup_n_f32(start(3)), a4 = svdup_n_f32(start(4)), a5 = svdup_n_f32(start(5));
  svfloat32_t b0 = svdup_n_f32(start(6)), b1 = svdup_n_f32(start(7)), b2 = svdup_n_f32(start(8));
  svfloat32_t b3 = svdup_n_f32(start(9)), b4 = svdup_n_f32(start(10)), b5 = svdup_n_f32(start(11));
  for (std::int64_t r = 0; r < rounds; ++r) {
    a0 = svmad_f32_x(all, a0, m, t), a1 = svmad_f32_x(all, a1, m, t);
    a2 = svmad_f32_x(all, a2, m, t), a3 = svmad_f32_x(all, a3, m, t);
    a4 = svmad_f32_x(all, a4, m, t), a5 = svmad_f32_x(all, a5, m, t);
    b0 = svmad_f32_x(all, b0, m, t), b1 = svmad_f32_x(all, b1, m, t);
    b2 = svmad_f32_x(all, b2, m, t), b3 = svmad_f32_x(all, b3, m, t);
    b4 = svmad_f32_x(all, b4, m, t), b5 = svmad_f32_x(all, b5, m, t);
  }
  a0 = svadd_f32_x(all, svadd_f32_x(all, a0, a1), svadd_f32_x(all, a2, a3));
  b0 = svadd_f32_x(all, svadd_f32_x(all, b0, b1), svadd_f32_x(all, b2, b3));
  a4 = svadd_f32_x(all, svadd_f32_x(all, a4, a5), svadd_f32_x(all, b4, b5));
  sink = svaddv_f32(all, svadd_f32_x(all, svadd_f32_x(all, a0, b0), a4));
  return 2.0 * kChains * static_cast<double>(svcntw()) * static_cast<double>(rounds);
}
#else
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
constexpr int kLanes = kVectorBytes / sizeof(float);
using Vector [[gnu::vector_size(kVectorBytes)]] = float;

double multiply_adds(std::int64_t rounds) {
  Vector chains[kChains];
  for (int i = 0; i < kChains; ++i) chains[i] = Vector{} + start(i);
  for (std::int64_t r = 0; r < rounds; ++r)
    for (Vector& chain : chains) chain = chain * kFactor + kTerm;
  Vector sum{};
  for (const Vector& chain : chains) sum += chain;
  sink = sum[0];
  return 2.0 * kChains * kLanes * static_cast<double>(rounds);
}
#endif

}  // namespace

double run_multiply_adds_here(std::int64_t rounds) { return multiply_adds(rounds); }

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
