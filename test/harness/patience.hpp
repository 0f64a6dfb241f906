// SPDX-License-Identifier: Apache-2.0
// How long to wait for events that should be immediate: the only time limits in tests, which find
// hangs, not slowness.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

namespace halomesh::test {

/// Counts time as on an idle machine: if twice as many threads want to run as there are processors,
/// half of the time.
class Patience {
 public:
  explicit Patience(double seconds) : left_s_(seconds) {}

  bool over() {
    const auto now = Clock::now();
    left_s_ -= std::chrono::duration<double>(now - before_).count() / crowding();
    before_ = now;
    return left_s_ < 0;
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// Threads that run or are ready, now or in the last minute, per processor; at least 1.
  static double crowding() {
    double minute = 0, skipped = 0, now = 0;
    std::ifstream("/proc/loadavg") >> minute >> skipped >> skipped >>
        now;  // "7.51 6.18 3.89 5/108"
    return std::max(1.0, std::max(minute, now) /
                             static_cast<double>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))));
  }

  double left_s_;
  Clock::time_point before_ = Clock::now();
};

/// Waits until `condition` holds; false if patience for `seconds` ends first.
template <class Condition>
bool wait_until(double seconds, const Condition& condition) {
  for (Patience patience(seconds); !condition();) {
    if (patience.over()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace halomesh::test
