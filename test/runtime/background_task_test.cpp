// Work on a thread of its own: done once, waited for, and with its failure told.
#include "runtime/background_task.hpp"

#include <doctest/doctest.h>
#include <sched.h>

#include <future>

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

TEST_CASE("background task: what its work throws is thrown by who waits") {
  BackgroundTask task;
  task.start([] { throw Error("no", "mend it"); });
  CHECK_THROWS_AS(task.wait(), Error);
}

#ifdef SCHED_BATCH
TEST_CASE("background task: its thread does not push aside who wakes it") {
  BackgroundTask task;
  int policy = -1;
  task.start([&] { policy = sched_getscheduler(0); });
  task.wait();
  CHECK(policy == SCHED_BATCH);
  CHECK(sched_getscheduler(0) == SCHED_OTHER);  // of the caller alone nothing changes
}
#endif

}  // namespace
}  // namespace halomesh
