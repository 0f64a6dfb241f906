// One yes or no of all ranks, found while they work on.
// Knows nothing of what it is about.
#pragma once

#include <memory>

#include "runtime/mpi.hpp"

namespace halomesh {

/// Asks all ranks of a communicator whether any says yes. Unlike a maximum that all wait for, ranks
/// that are now and then slower than others hold up nobody, as long as they have asked when another
/// wants the answer. One question at a time.
class Agreement {
 public:
  /// `comm` must outlive this object.
  explicit Agreement(const Comm& comm) : comm_(comm) {}
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;
  /// Waits for the answer of an open question. While an exception unwinds, which ends all ranks, it
  /// is left to MPI.
  ~Agreement();

  /// Collective, but waits for nobody. The last question must have been answered.
  void ask(bool mine);
  /// Lets MPI make progress: its collectives advance only while it is called.
  void progress();
  /// Collective: waits for all ranks to ask. False when nothing was asked.
  bool answer();

 private:
  const Comm& comm_;
  std::unique_ptr<int> any_ = std::make_unique<int>(0);
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace halomesh
