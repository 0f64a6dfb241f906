// SPDX-License-Identifier: Apache-2.0
// Lets messages make progress from within the parallel loops of a layer's own kernels.
#pragma once

#include <omp.h>

#include <chrono>

#include "src/nn/kernels/isa.hpp"
#include "src/nn/layer.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {

/// Every thread calls it after each piece of its work, however small. Only thread 0, which called
/// the layer and is the only one that may, calls Pass::progress(), at most every 50 us, since a
/// call costs some microseconds. The threads of a kernel share one object.
class Poll {
 public:
  /// Does nothing.
  Poll() = default;
  /// `pass` must outlive this object.
  explicit Poll(const Pass& pass) : pass_(pass.poll != nullptr ? &pass : nullptr) {}

  void operator()() {
    if (pass_ == nullptr || omp_get_thread_num() != 0) return;
    if (Clock::now() - last_ < std::chrono::microseconds(50)) return;
    pass_->progress();
    last_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  const Pass* pass_ = nullptr;
  Clock::time_point last_ = Clock::now();
};

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
