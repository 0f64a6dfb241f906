// SPDX-License-Identifier: Apache-2.0
// A request to stop that has reached one rank, passed on to all, though they are at different work.
#pragma once

#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// For ranks that share no collective calls while they work, such as groups that train a model
/// each: two messages per rank at most, by way of rank 0.
class StopRelay {
 public:
  /// Collective over `world`, which must outlive this object.
  explicit StopRelay(const Comm& world);
  StopRelay(const StopRelay&) = delete;
  StopRelay& operator=(const StopRelay&) = delete;
  /// Call finish() first, unless an exception unwinds.
  ~StopRelay();

  /// Tells the others if this rank is `asked` to stop; true if another is. Call it as often as the
  /// request is to be noticed, also on ranks that wait for the others.
  bool poll(bool asked);
  /// Collective, after the last poll() of every rank: receives the remaining messages.
  void finish();

 private:
  void listen();
  bool has_arrived();

  Comm comm_;
  Requests told_;
  MPI_Request heard_ = MPI_REQUEST_NULL;
  bool has_told_ = false;
  std::int64_t received_ = 0;
};

}  // namespace halomesh
