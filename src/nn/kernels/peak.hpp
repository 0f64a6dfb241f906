// SPDX-License-Identifier: Apache-2.0
// Loops of multiply-adds and of memory traffic, to be timed for the peak performance of this rank's
// cores.
#pragma once

#include <cstdint>
#include <memory>

namespace halomesh {

/// Does `rounds` rounds of independent fp32 multiply-adds on registers, in the widest vectors of
/// the kernels in use (isa_kernels.hpp), on the calling thread. Returns the operations done, a
/// multiply-add being two.
double run_multiply_adds(std::int64_t rounds);

/// a(i) = b(i) + s * c(i), as in McCalpin's STREAM triad, on three arrays whose pages were first
/// touched by the threads that use them.
class Triad {
 public:
  /// Makes the arrays, of `bytes` each.
  explicit Triad(std::int64_t bytes);
  /// One pass of all OpenMP threads. Returns the bytes read and written, without those that a cache
  /// reads in order to write.
  double run();

 private:
  std::int64_t size_;
  std::unique_ptr<float[]> a_, b_, c_;
};

}  // namespace halomesh
