// A thread that lets MPI make progress: see progress_thread.hpp.
#include "runtime/progress_thread.hpp"

#include <pthread.h>
#include <sched.h>

#include <cstring>

#include "error.hpp"

namespace halomesh {

ProgressThread::ProgressThread(const Comm& comm, int processor) : comm_(comm.dup()) {
  int level = 0;
  mpi_check(MPI_Query_thread(&level));
  require(level == MPI_THREAD_MULTIPLE,
          cat("this MPI library (", MpiSession::library_version(),
              ") lets one thread call it at a time, which leaves no room for a progress thread"),
          "leave --progress-thread out, or use a library with MPI_THREAD_MULTIPLE");
  thread_ = std::thread([this] { run(); });
  cpu_set_t one;
  CPU_ZERO(&one);
  if (processor >= 0 && processor < CPU_SETSIZE) CPU_SET(static_cast<unsigned>(processor), &one);
  const int code = ::pthread_setaffinity_np(thread_.native_handle(), sizeof one, &one);
  if (code == 0) return;
  ending_ = true;
  thread_.join();
  throw Error(
      cat("the progress thread may not run on processor ", processor, ": ", std::strerror(code)),
      "give --progress-thread a processor that the job may use, or off");
}

ProgressThread::~ProgressThread() {
  ending_ = true;
  thread_.join();
}

void ProgressThread::run() {
  // Asking for a message that never comes makes the library look after all that are under way.
  // Where that fails, so will the calls of the other threads, which say so.
  int arrived = 0;
  while (!ending_ && MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_.handle(), &arrived,
                                MPI_STATUS_IGNORE) == MPI_SUCCESS)
    ::sched_yield();
}

}  // namespace halomesh
