// SPDX-License-Identifier: Apache-2.0
// A loader for tests that need steps, not data.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/load/loader.hpp"

namespace halomesh {

/// Returns one batch of one sample every time: zeros, with targets of one half.
class ConstantLoader final : public Loader {
 public:
  ConstantLoader(const Box& span, DataType type) : data_(span, 1, type) {
    batch_ = {1, data_.any_view(), ConstView{targets_.data(), Box::whole({4, 1, 1, 1}), 1},
              samples_};
  }
  void append(const BatchSchedule& /*schedule*/) override {}
  const Batch& next() override { return batch_; }
  void progress() override { ++polls_; }
  /// The number of calls of progress().
  std::int64_t polls() const { return polls_; }

 private:
  Tensor data_;
  std::array<float, 4> targets_{0.5F, 0.5F, 0.5F, 0.5F};
  std::array<std::int64_t, 1> samples_{0};
  Batch batch_;
  std::int64_t polls_ = 0;
};

}  // namespace halomesh
