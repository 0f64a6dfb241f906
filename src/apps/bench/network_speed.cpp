// SPDX-License-Identifier: Apache-2.0
// The speed of the network: see network_speed.hpp.
#include "src/apps/bench/network_speed.hpp"

#include <algorithm>
#include <array>

namespace halomesh {
namespace {

constexpr int kSpeedTries = 11;

/// The median time until the last rank has done `work`, after one try that is not counted.
template <class Work>
double median_seconds(const Comm& world, Work work) {
  std::array<double, kSpeedTries> seconds{};
  work();
  for (double& each : seconds) {
    world.barrier();
    const double begin = MPI_Wtime();
    work();
    each = world.max(MPI_Wtime() - begin);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kSpeedTries / 2, seconds.end());
  return seconds[kSpeedTries / 2];
}

std::int64_t halo_bytes(const Executor& executor) {
  return executor.received_bytes(Phase::kHaloWait) +
         executor.received_bytes(Phase::kPartialSumWait) +
         executor.received_bytes(Phase::kHaloGradientWait);
}

}  // namespace

NetworkSpeed measure_network(const Comm& world, TrainingStep& step, Parameters& parameters) {
  NetworkSpeed speed;
  speed.barrier_s = median_seconds(world, [&] { world.barrier(); });
  GradientReducer& reducer = step.reducer();
  // Repeated sums would overflow.
  std::fill(parameters.diffs().begin(), parameters.diffs().end(), 0.0f);
  const std::int64_t reduced = reducer.reduced_bytes();
  const double allreduce_s = median_seconds(world, [&] { reducer.reduce_all(); });
  speed.sums = reducer.sums();
  speed.allreduce_bytes = world.max((reducer.reduced_bytes() - reduced) / (kSpeedTries + 1));
  speed.allreduce_bus_bytes = world.max(reducer.ring_bytes());
  if (speed.allreduce_bytes > 0) speed.allreduce_s = allreduce_s;
  const std::int64_t received = halo_bytes(step.executor());
  const double halo_s = median_seconds(world, [&] { step.executor().exchange_all(); });
  speed.halo_bytes = world.sum((halo_bytes(step.executor()) - received) / (kSpeedTries + 1));
  if (speed.halo_bytes > 0) speed.halo_s = halo_s;
  return speed;
}

}  // namespace halomesh
