// SPDX-License-Identifier: Apache-2.0
// The bytes that a rank moves in training steps: halos, gradients and input.
#pragma once

#include <cstdint>

#include "runtime/posix/read_counts.hpp"

namespace halomesh {

/// The messages between the parts of a sample: halos, their gradients and partial sums.
struct HaloCounts {
  std::int64_t sent_bytes = 0, received_bytes = 0;
  std::int64_t messages = 0;  ///< sent
};

/// Sums of gradients.
struct ReductionCounts {
  std::int64_t bytes = 0;    ///< contributed by this rank
  std::int64_t buckets = 0;  ///< summed
  std::int64_t ns = 0;       ///< for all buckets, each from its start until its completion was
                             ///< noticed
};

/// Counts of one rank, summed over some steps.
struct StepCounts {
  HaloCounts halo;
  ReductionCounts reduction;
  ReadCounts input;
  double input_wait_s = 0;

  StepCounts& operator+=(const StepCounts& other) { return add(other, 1); }
  friend StepCounts operator-(StepCounts a, const StepCounts& b) { return a.add(b, -1); }

 private:
  StepCounts& add(const StepCounts& other, std::int64_t sign) {
    halo.sent_bytes += sign * other.halo.sent_bytes;
    halo.received_bytes += sign * other.halo.received_bytes;
    halo.messages += sign * other.halo.messages;
    reduction.bytes += sign * other.reduction.bytes;
    reduction.buckets += sign * other.reduction.buckets;
    reduction.ns += sign * other.reduction.ns;
    input.bytes += sign * other.input.bytes;
    input.calls += sign * other.input.calls;
    input.ns += sign * other.input.ns;
    input_wait_s += static_cast<double>(sign) * other.input_wait_s;
    return *this;
  }
};

}  // namespace halomesh
