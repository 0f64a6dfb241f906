// SPDX-License-Identifier: Apache-2.0
// A barrier whose waiting ranks leave their cores to others.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// Waits for all ranks of `comm`. Unlike in MPI_Barrier, waiting ranks sleep most of the time, so
/// that they disturb no measurement on the cores and links that they share with working ranks. A
/// rank notices the end up to 5 ms late. Calls `meanwhile` repeatedly. Collective over `comm`.
inline void quiet_barrier(const Comm& comm, const std::function<void()>& meanwhile = {}) {
  using std::chrono::microseconds;
  Requests request;
  mpi_check(MPI_Ibarrier(comm.handle(), request.add()));
  for (microseconds pause(20); !request.test_all();
       pause = std::min(2 * pause, microseconds(5000))) {
    if (meanwhile) meanwhile();
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace halomesh
