// SPDX-License-Identifier: Apache-2.0
// Clocks that are set apart and drift are brought together within the error that is stated.
#include "runtime/mpi/clock_sync.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "error.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "trace.hpp"

namespace halomesh {
namespace {

/// Nodes of two ranks; the clock of node n is 10 n ms ahead and gains n per thousand.
struct Node {
  explicit Node(const Comm& comm) : number(comm.rank() / 2) {}
  Comm ranks(const Comm& comm) const { return comm.split(number, comm.rank()); }
  ClockSync::Clock clock() const {
    return [n = number] {
      const std::int64_t now = Trace::now_ns();
      return now + n * 10'000'000 + n * now / 1000;
    };
  }
  int number;
};

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

TEST_CASE("clocks that are set apart and drift agree between two measurements") {
  for_comms("clocks", {2, 4, 6}, [](const Comm& comm, Findings& findings) {
    const Node node(comm);
    const ClockSync::Clock clock = node.clock();
    ClockSync sync(comm, node.ranks(comm), clock);
    sync.measure();
    pause();
    // All ranks run on one machine, so this is rank 0's clock.
    const std::int64_t before = Trace::now_ns(), local = clock(), after = Trace::now_ns();
    pause();
    sync.measure();
    const std::int64_t common = sync.common_ns(local), error = sync.error_ns();
    findings.expect_equal(sync.nodes(), (comm.size() + 1) / 2, "nodes");
    constexpr std::int64_t kRounding = 2;
    findings.expect(
        before - error - kRounding <= common && common <= after + error + kRounding, [&] {
          return fmt::format("{} ns away from rank 0's clock, error {} ns", common - before, error);
        });
    // Ranks of one node need no message, others cannot agree exactly. The bound is that of a busy
    // machine, whose scheduler interrupts round trips.
    findings.expect((error > 0) == (comm.size() > 2) && error < 100'000'000,
                    [&] { return fmt::format("error {} ns", error); });
    findings.expect(comm.size() > 2 || common == local,
                    [&] { return fmt::format("{} instead of {}", common, local); });
  });
}

TEST_CASE("before and after the measurements a clock's offset is constant") {
  for_comms("clocks", {4}, [](const Comm& comm, Findings& findings) {
    const Node node(comm);
    const ClockSync::Clock clock = node.clock();
    ClockSync sync(comm, node.ranks(comm), clock);
    const std::int64_t early = clock();
    pause();
    sync.measure();
    const std::int64_t first = clock(), shift = first - sync.common_ns(first);
    sync.measure();
    const std::int64_t late = clock() + 1'000'000'000;
    findings.expect_equal(early - sync.common_ns(early), shift, "offset before");
    const std::int64_t last = late - sync.common_ns(late);
    findings.expect_equal(late + 7 - sync.common_ns(late + 7), last, "offset after");
    findings.expect((shift == 0) == (node.number == 0),
                    [&] { return fmt::format("offset {} ns", shift); });
  });
}

}  // namespace
}  // namespace halomesh
