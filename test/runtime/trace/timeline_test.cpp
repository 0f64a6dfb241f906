// SPDX-License-Identifier: Apache-2.0
// What a Timeline keeps of a run, and counts when its memory is full.
#include "timeline.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "trace.hpp"

namespace halomesh {
namespace {

using Kind = TimelineEvent::Kind;

void step(Timeline& timeline, std::int64_t number) {
  timeline.begin_step(number);
  timeline.phase(Phase::kForward, "conv1", 1, 2);
  TimelineEvent message;
  message.kind = Kind::kSend;
  timeline.add(message);
  timeline.phase(Phase::kStep, "", 0, 3);
  timeline.end_step();
}

TEST_CASE("a timeline keeps the steps of its window, and evaluation only as a whole") {
  Timeline timeline;
  timeline.reserve(100, 10);
  timeline.job("staging", 0, 1);
  step(timeline, 1);
  CHECK(timeline.step_events() == 3);
  timeline.load("read", 0, 0, 1);
  timeline.phase(Phase::kCheckpoint, "", 4, 5);
  timeline.open();
  step(timeline, 2);
  timeline.phase(Phase::kForward, "conv1", 6, 7);  // of an evaluation
  timeline.phase(Phase::kEvaluation, "", 5, 8);
  timeline.load("read", 4, 6, 7);
  timeline.close();
  step(timeline, 3);
  const std::vector<TimelineEvent> events = timeline.events();
  REQUIRE(events.size() == 6);
  CHECK(events[0].name == "staging");
  for (std::size_t i = 1; i <= 3; ++i) CHECK(events[i].step == 2);
  CHECK(events[2].kind == Kind::kSend);
  CHECK(events[4].kind == Kind::kJob);
  CHECK(events[4].phase == Phase::kEvaluation);
  CHECK(events[5].kind == Kind::kLoad);
  CHECK(events[5].tag == 4);
  CHECK(timeline.dropped() == 0);
}

TEST_CASE("a timeline counts the events that it cannot keep") {
  Timeline timeline;
  timeline.reserve(2, 1);
  timeline.open();
  step(timeline, 1);
  timeline.load("read", 0, 0, 1);
  timeline.load("read", 1, 1, 2);
  CHECK(timeline.events().size() == 3);
  CHECK(timeline.dropped() == 2);
  CHECK(timeline.step_events() == 3);
  timeline.reserve(3, 0);
  step(timeline, 2);
  CHECK(timeline.events().size() == 6);
  CHECK(timeline.dropped() == 2);
}

TEST_CASE("a trace passes its events on to a timeline") {
  Timeline timeline;
  timeline.reserve(8, 0);
  timeline.open();
  Trace trace(0);
  trace.send_to(&timeline);
  timeline.begin_step(1);
  { const TraceScope scope(&trace, Phase::kForward, "conv1"); }
  REQUIRE(timeline.events().size() == 1);
  CHECK(timeline.events().front().name == "conv1");
  CHECK(trace.events().empty());
}

}  // namespace
}  // namespace halomesh
