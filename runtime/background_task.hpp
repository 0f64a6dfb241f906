// One piece of work at a time on a thread of its own.
// Knows nothing of the work.
#pragma once

#include <sched.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace halomesh {

/// Has the calling thread, and those that it makes, not push aside, when it wakes up, the one that
/// woke it: by default it would, for some milliseconds, where they share a core. It still gets its
/// share of the core. A job's own choice (chrt) stays; a system that grants nothing of the kind is
/// asked in vain.
inline void give_way_on_waking() {
#ifdef SCHED_BATCH
  const sched_param none{};
  if (sched_getscheduler(0) == SCHED_OTHER) sched_setscheduler(0, SCHED_BATCH, &none);
#endif
}

/// All functions are called by one thread.
class BackgroundTask {
 public:
  BackgroundTask() : thread_([this] { run(); }) {}
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;
  /// Waits for the work under way.
  ~BackgroundTask() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// Starts `work`; the work before must be done().
  void start(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_ = std::move(work);
      busy_ = true;
    }
    changed_.notify_all();
  }
  /// True when there is nothing under way.
  bool done() {
    const std::lock_guard lock(mutex_);
    return !busy_;
  }
  /// The same, after waiting for up to `time`.
  bool done_within(std::chrono::microseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return !busy_; });
  }
  /// Waits for the work under way; throws what it threw.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !busy_; });
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  void run() {
    give_way_on_waking();
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
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace halomesh
