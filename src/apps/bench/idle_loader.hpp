// SPDX-License-Identifier: Apache-2.0
// A loader for steps that need no data.
#pragma once

#include <vector>

#include "runtime/load/loader.hpp"

namespace halomesh {

/// Returns one batch of zeros every time, at once and without a thread.
class IdleLoader final : public Loader {
 public:
  explicit IdleLoader(const BatchSpec& spec)
      : data_(spec.box, spec.local_batch, spec.type),
        targets_(spec.targets, spec.local_batch, spec.target_type),
        samples_(static_cast<std::size_t>(spec.local_batch)) {
    batch_ = {spec.local_batch, data_.any_view(), targets_.any_view(), samples_};
  }
  void append(const BatchSchedule& schedule) override { steps_left_ += schedule.steps; }
  const Batch& next() override {
    --steps_left_;
    return batch_;
  }

 private:
  Tensor data_, targets_;
  std::vector<std::int64_t> samples_;
  Batch batch_;
};

}  // namespace halomesh
