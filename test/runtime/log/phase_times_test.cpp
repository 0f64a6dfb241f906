// SPDX-License-Identifier: Apache-2.0
// Times of phases: exclusive of what lies inside them, and adding up to their steps.
#include "runtime/log/phase_times.hpp"

#include <doctest/doctest.h>

#include "error.hpp"

namespace halomesh {
namespace {

std::int64_t sum_ns(const PhaseTimes& times) {
  std::int64_t sum = 0;
  for (const PhaseTimes::Row& row : times.rows()) sum += row.ns;
  return sum;
}

TEST_CASE("phases exclude the intervals inside them and add up to the steps") {
  PhaseTimes times;
  // A step of 100 ns: conv1 in two chunks; an unpacking inside a wait inside a backward phase.
  const std::vector<TraceEvent> step = {{Phase::kForward, "conv1", 10, 30, 0},
                                        {Phase::kForward, "conv1", 30, 35, 0},
                                        {Phase::kHaloGradientPack, "act1", 55, 59, 0},
                                        {Phase::kHaloGradientWait, "act1", 50, 60, 24},
                                        {Phase::kBackwardData, "c2", 45, 80, 0},
                                        {Phase::kLoss, "", 80, 80, 0},
                                        {Phase::kStep, "", 0, 100, 0}};
  times.add(step);
  CHECK(times.rows().size() == 6);
  CHECK(times.of(Phase::kForward).ns == 25);
  CHECK(times.of(Phase::kHaloGradientPack).ns == 4);
  CHECK(times.of(Phase::kHaloGradientWait).ns == 6);
  CHECK(times.of(Phase::kBackwardData).ns == 25);
  CHECK(times.of(Phase::kLoss).ns == 0);
  CHECK(times.of(Phase::kOther).ns == 100 - 25 - 35);
  CHECK(times.of({Phase::kHaloGradientWait, "act1"}).received_bytes == 24);
  CHECK(sum_ns(times) == 100);
  times.add(std::vector<TraceEvent>{{Phase::kHaloGradientWait, "act2", 200, 210, 8},
                                    {Phase::kStep, "", 200, 210, 0}});
  CHECK(times.of(Phase::kHaloGradientWait).ns == 16);
  CHECK(times.of(Phase::kHaloGradientWait).received_bytes == 32);
  CHECK(times.of({Phase::kHaloGradientWait, "act2"}).ns == 10);
  CHECK(times.of({Phase::kForward, "act2"}).ns == 0);
  CHECK(sum_ns(times) == 110);
}

TEST_CASE("texts that have moved are the same layers, and sums merge and reset") {
  PhaseTimes times;
  for (int step = 0; step < 3; ++step) {
    const std::string one = "conv1", two = "conv2";  // at other addresses in each step
    const std::string keep(static_cast<std::size_t>(100 * (step + 1)), 'x');
    times.add(std::vector<TraceEvent>{{Phase::kForward, one, 0, 10, 1},
                                      {Phase::kForward, two, 10, 30, 0},
                                      {Phase::kForward, one, 30, 31, 0},
                                      {Phase::kStep, "", 0, 40, 0}});
  }
  CHECK(times.rows().size() == 3);
  CHECK(times.of({Phase::kForward, "conv1"}).ns == 33);
  CHECK(times.of({Phase::kForward, "conv2"}).ns == 60);
  CHECK(times.seconds() == doctest::Approx(120e-9));
  CHECK(times.seconds(PhaseKind::kCompute) == doctest::Approx(93e-9));
  PhaseTimes sum;
  sum.add(times);
  sum.add(std::vector<TraceEvent>{{Phase::kLoss, "", 0, 4, 0}, {Phase::kStep, "", 0, 5, 0}});
  sum.add(times);
  CHECK(sum.rows().size() == 4);
  CHECK(sum.of({Phase::kForward, "conv1"}).ns == 66);
  CHECK(sum.of({Phase::kForward, "conv1"}).received_bytes == 6);
  CHECK(sum_ns(sum) == 245);
  times.reset();
  CHECK(times.rows().size() == 3);
  CHECK(sum_ns(times) == 0);
}

TEST_CASE("intervals that are not those of one step are refused") {
  using Events = std::vector<TraceEvent>;
  PhaseTimes times;
  const TraceEvent wait{Phase::kHaloWait, "", 5, 6, 0}, step{Phase::kStep, "", 0, 9, 0};
  CHECK_THROWS_AS(times.add(Events{}), Error);
  CHECK_THROWS_AS(times.add(Events{wait}), Error);
  CHECK_THROWS_AS(times.add(Events{step, wait}), Error);
  CHECK_THROWS_AS(times.add(Events{step, {Phase::kStep, "", 10, 12, 0}}), Error);
  CHECK_THROWS_AS(times.add(Events{wait, {Phase::kStep, "", 7, 12, 0}}), Error);
}

}  // namespace
}  // namespace halomesh
