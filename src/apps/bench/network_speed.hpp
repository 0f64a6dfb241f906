// SPDX-License-Identifier: Apache-2.0
// What the network between the ranks of a run can do: its sums and its halos without any compute.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/mpi/mpi.hpp"
#include "runtime/step/training_step.hpp"

namespace halomesh {

/// Seconds are the median of several tries; each try begins with a barrier and lasts until the last
/// rank is done. What does not occur on a mesh is 0.
struct NetworkSpeed {
  double barrier_s = 0;
  double allreduce_s = 0;                  ///< the sums of all gradients of a step, on idle ranks
  std::int64_t allreduce_bytes = 0;        ///< that the rank with most gradients contributes
  double allreduce_bus_bytes = 0;          ///< that a ring all-reduce moves through that rank
  std::vector<GradientReducer::Sum> sums;  ///< of that step, of rank 0
  double halo_s = 0;                       ///< all exchanges of a step, one after the other
  std::int64_t halo_bytes = 0;             ///< received in them by all ranks together

  /// Bytes per second and rank as nccl-tests define them (PERFORMANCE.md, "Bandwidth"): of the
  /// values summed, and of what a ring moves for them, which is comparable between numbers of
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

/// Runs the sums and exchanges of `step` as they are in training. Overwrites the gradients and
/// activations of the last step. Collective over `world`.
NetworkSpeed measure_network(const Comm& world, TrainingStep& step, Parameters& parameters);

}  // namespace halomesh
