// A thread that lets MPI make progress while the others compute: for a processor that computes
// nothing, such as an assistant core of A64FX. Knows nothing of what is sent.
#pragma once

#include <atomic>
#include <thread>

#include "runtime/mpi.hpp"

namespace halomesh {

/// Calls MPI again and again, pinned to one processor, from construction to destruction. Results do
/// not depend on it.
class ProgressThread {
 public:
  /// `processor`: a logical one, as the operating system counts. Throws Error when the thread may
  /// not run there, or MPI was not given ThreadLevel::kMultiple. Collective over `comm`, as is the
  /// destructor unless an exception unwinds.
  ProgressThread(const Comm& comm, int processor);
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;
  ~ProgressThread();

 private:
  void run();

  Comm comm_;  // on which there are no messages
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace halomesh
