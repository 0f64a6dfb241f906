// SPDX-License-Identifier: Apache-2.0
// A non-blocking logical OR over all ranks.
#pragma once

#include <utility>

#include "runtime/mpi/in_flight.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// Finds out whether any rank of a communicator passes true. Unlike in a blocking reduction, a slow
/// rank does not hold up the others if it has started the operation by the time another needs the
/// result. One operation at a time; the destructor waits for it unless an exception unwinds.
class NonblockingAny {
 public:
  /// `comm` must outlive this object.
  explicit NonblockingAny(const Comm& comm) : comm_(comm) {}

  /// Starts an operation. Collective, but waits for no other rank. The result of the previous
  /// operation must have been taken.
  void start(bool mine) {
    *any_ = mine ? 1 : 0;
    request_.clear();
    mpi_check(
        MPI_Iallreduce(MPI_IN_PLACE, &*any_, 1, MPI_INT, MPI_MAX, comm_.handle(), request_.add()));
  }
  /// Lets MPI make progress: its collectives advance only inside MPI calls. True once all ranks
  /// have started.
  bool progress() { return request_.test_all(); }
  /// Waits until all ranks have started and returns the result; false if no operation was started.
  bool take_result() {
    request_.wait_all();
    return std::exchange(*any_, 0) != 0;
  }

 private:
  const Comm& comm_;
  InFlight<int> any_;
  Requests request_;
};

}  // namespace halomesh
