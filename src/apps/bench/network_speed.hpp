// SPDX-License-Identifier: Apache-2.0
// The speed of the network between the ranks of a run: its sums and halos without any compute.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/mpi/mpi.hpp"
#include "runtime/step/training_step.hpp"

namespace halomesh {

/// Seconds are the median of several tries, each from a barrier until the last rank is done. Times
/// of operations that a mesh does not have are 0.
struct NetworkSpeed {
  double barrier_s = 0;
  double allreduce_s = 0;                  ///< all gradient sums of a step, on idle ranks
  std::int64_t allreduce_bytes = 0;        ///< contributed by the rank with most gradients
  double allreduce_bus_bytes = 0;          ///< moved through that rank by a ring all-reduce
  std::vector<GradientReducer::Sum> sums;  ///< the sums of that step on rank 0
  double halo_s = 0;                       ///< all exchanges of a step, one after the other
  std::int64_t halo_bytes = 0;             ///< received in these exchanges by all ranks

  /// Bytes per second and rank as nccl-tests define them (PERFORMANCE.md, "Bandwidth"): for the
  /// summed values, and for the bytes that a ring moves, which are comparable between numbers of
  /// ranks.
  double algorithm_bandwidth() const {
    return allreduce_s > 0 ? static_cast<double>(allreduce_bytes) / allreduce_s : 0;
  }
  double bus_bandwidth() const { return allreduce_s > 0 ? allreduce_bus_bytes / allreduce_s : 0; }
  /// Bytes per second of all ranks together.
  double halo_bandwidth() const {
    return halo_s > 0 ? static_cast<double>(halo_bytes) / halo_s : 0;
  }
};

/// Runs the sums and exchanges of `step` as in training. Overwrites the gradients and activations
/// of the last step. Collective over `world`.
NetworkSpeed measure_network(const Comm& world, TrainingStep& step, Parameters& parameters);

}  // namespace halomesh
