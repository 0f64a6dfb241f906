// SPDX-License-Identifier: Apache-2.0
// Work on a background thread: done once, waited for, with its failure reported.
#include "runtime/posix/background_task.hpp"

#include <doctest/doctest.h>
#include <sched.h>

#include <future>
#include <thread>

#include "error.hpp"

namespace halomesh {
namespace {

TEST_CASE("background task: is done when its work is, piece after piece") {
  BackgroundTask task;
  CHECK(task.done());
  int sum = 0;
  for (int i = 1; i <= 3; ++i) {
    std::promise<void> may_end;
    const std::shared_future<void> end = may_end.get_future();
    task.start([&sum, end, i] {
      end.wait();
      sum += i;
    });
    CHECK_FALSE(task.done());
    CHECK_FALSE(task.done_within(std::chrono::microseconds(100)));
    may_end.set_value();
    task.wait();
    CHECK(task.done());
    CHECK(sum == i * (i + 1) / 2);
  }
}

TEST_CASE("background task: wait() throws what the work threw") {
  BackgroundTask task;
  task.start([] { throw Error("no", "mend it"); });
  CHECK_THROWS_AS(task.wait(), Error);
}

#ifdef SCHED_BATCH
/// The scheduling policy of a thread created by one that has requested SCHED_BATCH.
int granted() {
  int policy = -1;
  std::thread([&] {
    const sched_param none{};
    policy = sched_setscheduler(0, SCHED_BATCH, &none) == 0 ? SCHED_BATCH : sched_getscheduler(0);
  }).join();
  return policy;
}

TEST_CASE("background task: its thread does not preempt the thread that wakes it") {
  const int before = sched_getscheduler(0);
  BackgroundTask task;
  int policy = -1;
  task.start([&] { policy = sched_getscheduler(0); });
  task.wait();
  CHECK(policy == (before == SCHED_OTHER ? granted() : before));
  CHECK(sched_getscheduler(0) == before);
}
#endif

}  // namespace
}  // namespace halomesh
