// SPDX-License-Identifier: Apache-2.0
// Runs one task at a time on a background thread.
#pragma once

#include <sched.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/posix/memory_needs.hpp"

namespace halomesh {

/// Requests SCHED_BATCH for the calling thread and the threads it creates, so that waking one does
/// not preempt the waking thread if both share a core. Best effort: keeps a policy that the job has
/// chosen (chrt).
inline void request_batch_scheduling() {
#ifdef SCHED_BATCH
  const sched_param none{};
  if (sched_getscheduler(0) == SCHED_OTHER) sched_setscheduler(0, SCHED_BATCH, &none);
#endif
}

/// A thread that runs one task at a time. All functions must be called by one thread.
class BackgroundTask {
 public:
  BackgroundTask() : thread_(started_thread([this] { run(); })) {}
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;
  /// Waits for the current task.
  ~BackgroundTask() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// Starts `work`; the previous task must be done().
  void start(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_ = std::move(work);
      busy_ = true;
    }
    changed_.notify_all();
  }
  /// True if no task is running.
  bool done() {
    const std::lock_guard lock(mutex_);
    return !busy_;
  }
  /// True if no task is running after at most `time`.
  bool done_within(std::chrono::microseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return !busy_; });
  }
  /// Waits for the current task and rethrows its exception.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !busy_; });
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  void run() {
    request_batch_scheduling();
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return busy_ || stopping_; });
      if (!busy_) return;
      lock.unlock();
      std::exception_ptr failure;
      try {
        work_();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure != nullptr) failure_ = failure;
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool busy_ = false, stopping_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // last, because it uses all members above
};

}  // namespace halomesh
