// SPDX-License-Identifier: Apache-2.0
// The counters of reads: see read_counts.hpp.
#include "runtime/posix/read_counts.hpp"

#include <atomic>

namespace halomesh {
namespace {

// There is one per process: readers run in several threads and belong to different owners.
struct SharedCounts {
  std::atomic<std::int64_t> bytes = 0, calls = 0, ns = 0;
};
SharedCounts& of_process() {
  static SharedCounts counts;
  return counts;
}

ReadCounts& of_thread() {
  thread_local ReadCounts counts;
  return counts;
}

}  // namespace

ReadCounts read_counts() {
  const SharedCounts& counts = of_process();
  return {counts.bytes, counts.calls, counts.ns};
}

ReadCounts read_counts_of_thread() { return of_thread(); }

void CountedRead::count(std::int64_t bytes) const {
  const ReadCounts call{bytes, 1,
                        std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::steady_clock::now() - begin_)
                            .count()};
  of_thread() += call;
  of_process().bytes += call.bytes;
  of_process().calls += call.calls;
  of_process().ns += call.ns;
}

}  // namespace halomesh
