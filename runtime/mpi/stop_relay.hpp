// SPDX-License-Identifier: Apache-2.0
// Passes a request to stop that has reached one rank on to all, even while they do different work.
#pragma once

#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// Relays a stop between ranks that share no collective calls while they work, such as groups that
/// train one model each. Sends two messages per rank at most, by way of rank 0.
class StopRelay {
 public:
  /// Collective over `world`, which must outlive this object.
  explicit StopRelay(const Comm& world);
  StopRelay(const StopRelay&) = delete;
  StopRelay& operator=(const StopRelay&) = delete;
  /// Call finish() first, unless an exception unwinds.
  ~StopRelay();

  /// Tells the others if this rank is `asked` to stop; true if another rank is. Call it as often as
  /// the request should be noticed, also on ranks that wait for others.
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
