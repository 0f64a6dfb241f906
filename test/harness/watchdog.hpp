// SPDX-License-Identifier: Apache-2.0
// Ends a process whose operation hangs, naming the rank and the operation.
// Must not depend on MPI, so that it works when MPI itself hangs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "test/harness/patience.hpp"

namespace halomesh::test {

/// The exit status of a process that a Watchdog ended.
inline constexpr int kWatchdogExit = 86;

/// This process's rank from the launcher's environment variables; "?" if there is none.
inline std::string launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"})
    if (const char* value = std::getenv(name)) return value;
  return "?";
}

/// Unless destroyed within `seconds`, prints "rank R: operation X did not finish in N s" to stderr
/// and ends the process at once with kWatchdogExit; the launcher then ends the other ranks.
class Watchdog {
 public:
  Watchdog(std::string operation, double seconds, std::string rank = launched_rank())
      : operation_(std::move(operation)),
        seconds_(seconds),
        rank_(std::move(rank)),
        thread_([this] { wait(); }) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() {
    disarm();
    thread_.join();
  }

  /// Ends the watch: the operation is over.
  void disarm() {
    {
      const std::lock_guard lock(mutex_);
      disarmed_ = true;
    }
    changed_.notify_all();
  }

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    for (Patience patience(seconds_); !patience.over();)
      if (changed_.wait_for(lock, std::chrono::milliseconds(20), [this] { return disarmed_; }))
        return;
    std::fprintf(stderr, "rank %s: operation %s did not finish in %g s\n", rank_.c_str(),
                 operation_.c_str(), seconds_);
    std::fflush(stderr);
    std::_Exit(kWatchdogExit);
  }

  std::string operation_;
  double seconds_;
  std::string rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool disarmed_ = false;
  std::thread thread_;  // last, because it uses all members above
};

}  // namespace halomesh::test
