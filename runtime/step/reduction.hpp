// SPDX-License-Identifier: Apache-2.0
// How a range of values is summed over the ranks that hold it: flat, or in two levels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/mpi/mpi.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// kFlat: one all-reduce over all holders. kTwoLevel: the holders of a replica reduce-scatter among
/// themselves, each sums its share with the same share of the other replicas, and the shares are
/// gathered. Of V values that P ranks of each of R replicas hold, V / P per rank are sent between
/// replicas; the rest stays within a replica.
enum class Reduction : std::uint8_t { kFlat, kTwoLevel };

constexpr const char* name_of(Reduction reduction) {
  return reduction == Reduction::kFlat ? "flat" : "two-level";
}

/// The reduction of this name. "auto" is flat: two levels have not been faster on any machine
/// measured. Throws UsageError for unknown names.
Reduction reduction_named(const std::string& name);

/// The communicators of ranks that hold the same values.
struct HolderComms {
  Comm all;
  Comm scatter, across, gather;  ///< null if the sum is flat

  /// Collective over `holders`. Flat where a replica, or all of them, is a single rank.
  HolderComms(Comm holders, std::int64_t replica, Reduction reduction);
  int rounds() const { return across.is_null() ? 1 : 3; }
};

/// The sum of one range of values, in the rounds of its HolderComms. Every round is one
/// non-blocking collective: all holders must start those of one communicator in the same order.
class BucketSum {
 public:
  BucketSum(const HolderComms& comms, std::int64_t volume);
  /// Starts a round once the one before is complete; after the last, `values` is the sum.
  void start(const HolderComms& comms, int round, float* values, MPI_Request* request);

 private:
  int volume_;
  std::vector<int> counts_, offsets_;  // of the share of each holder of a replica
  AlignedBuffer<float> share_;         // of this rank
};

}  // namespace halomesh
