// SPDX-License-Identifier: Apache-2.0
// The time before the wall limit at which a run must stop: see wall_limit.hpp.
#include "runtime/train/wall_limit.hpp"

#include <algorithm>

namespace halomesh {

void WallLimit::step_took(double seconds) { slowest_step_s_ = std::max(slowest_step_s_, seconds); }

void WallLimit::checkpoint_took(double seconds) {
  slowest_checkpoint_s_ = std::max(slowest_checkpoint_s_, seconds);
}

double WallLimit::margin_s(double evaluation_steps) const {
  const double assumed_s = std::min(kAssumedCheckpointSeconds, kAssumedShare * limit_s_);
  const double checkpoint_s = slowest_checkpoint_s_ > 0 ? slowest_checkpoint_s_ : assumed_s;
  const double evaluation_s = evaluation_steps == 0 ? 0
                              : evaluation_s_ > 0   ? evaluation_s_
                                                    : evaluation_steps * slowest_step_s_;
  return 2 * slowest_step_s_ + evaluation_s + 2 * checkpoint_s;
}

}  // namespace halomesh
