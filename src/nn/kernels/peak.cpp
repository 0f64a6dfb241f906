// SPDX-License-Identifier: Apache-2.0
// Loops of multiply-adds and of memory traffic: see peak.hpp.
#include "src/nn/kernels/peak.hpp"

#include "src/nn/kernels/isa_kernels.hpp"

namespace halomesh {
namespace {

thread_local volatile float sink;  // keeps compilers from removing the loop below

}  // namespace

double run_multiply_adds(std::int64_t rounds) { return isa_kernels().run_multiply_adds(rounds); }

Triad::Triad(std::int64_t bytes)
    : size_(bytes / static_cast<std::int64_t>(sizeof(float))),
      a_(new float[static_cast<std::size_t>(size_)]),
      b_(new float[static_cast<std::size_t>(size_)]),
      c_(new float[static_cast<std::size_t>(size_)]) {
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < size_; ++i) {
    const auto at = static_cast<std::size_t>(i);
    a_[at] = 0, b_[at] = 1, c_[at] = 2;
  }
}

double Triad::run() {
  float *const a = a_.get();
  const float *const b = b_.get(), *const c = c_.get();
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < size_; ++i) a[i] = b[i] + 3.0f * c[i];
  if (size_ > 0) sink = a[size_ - 1];
  return 3.0 * sizeof(float) * static_cast<double>(size_);
}

}  // namespace halomesh
