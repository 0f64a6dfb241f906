// SPDX-License-Identifier: Apache-2.0
// The trace that several ranks write together: nodes whose clocks are set apart are aligned,
// dropped events are counted, and a failure to write is one error on all ranks.
#include "runtime/trace/run_timeline.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "error.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/mpi_shared_directory.hpp"
#include "test/harness/trace_reader.hpp"
#include "trace.hpp"

namespace halomesh {
namespace {

using Kind = TimelineEvent::Kind;

constexpr std::int64_t kApartNs = 10'000'000;

/// A step on one rank: a message around the ring of all ranks, four times.
void ring_step(const Comm& comm, RunTimeline& timeline, const ClockSync::Clock& clock,
               std::int64_t number) {
  timeline.before_step(number);
  const std::int64_t begin = clock();
  const int next = (comm.rank() + 1) % comm.size(),
            previous = (comm.rank() + comm.size() - 1) % comm.size();
  for (int round = 0; round < 4; ++round) {
    TimelineEvent event;
    event.kind = Kind::kSend;
    event.peer = next;
    event.tag = round;
    event.name = "conv1";
    event.bytes = 4;
    event.begin_ns = clock();
    event.end_ns = clock();
    MPI_Request sent = MPI_REQUEST_NULL;
    int value = round, got = 0;
    mpi_check(MPI_Isend(&value, 1, MPI_INT, next, 0, comm.handle(), &sent));
    timeline.recorder().add(event);
    event.kind = Kind::kReceive;
    event.peer = previous;
    event.begin_ns = clock();
    mpi_check(MPI_Recv(&got, 1, MPI_INT, previous, 0, comm.handle(), MPI_STATUS_IGNORE));
    event.mark_ns = event.end_ns = clock();
    timeline.recorder().add(event);
    mpi_check(MPI_Wait(&sent, MPI_STATUS_IGNORE));
  }
  timeline.recorder().phase(Phase::kStep, "", begin, clock());
}

MeshShape ring_of(const Comm& comm) { return {1, {comm.size(), 1, 1}}; }

TraceRequest request_to(const std::filesystem::path& file, TraceSteps steps = {2, 3}) {
  TraceRequest request;
  request.file = file;
  request.steps = steps;
  request.samples_of_step = 4;
  return request;
}

void expect_sound(const Comm& comm, Findings& findings, const std::filesystem::path& file,
                  const std::function<void(const test::TraceReader&)>& more) {
  if (comm.rank() != 0) return;
  const test::TraceReader trace(test::gunzip(file));
  findings.expect(trace.problems().empty(), [&] { return test::listed(trace.problems()); });
  more(trace);
}

TEST_CASE("two nodes with clocks 10 ms apart are aligned within the stated error") {
  for_comms("a trace of two nodes", {4}, [](const Comm& comm, Findings& findings) {
    const SharedDirectory directory(comm);
    const std::filesystem::path file = directory.path() / "trace.json.gz";
    const std::int64_t ahead_ns = comm.rank() / 2 == 1 ? kApartNs : 0;
    const ClockSync::Clock clock = [ahead_ns] { return Trace::now_ns() + ahead_ns; };
    RunTimeline timeline(comm, ring_of(comm), request_to(file),
                         comm.split(comm.rank() / 2, comm.rank()), clock);
    std::optional<TraceReport> report;
    for (std::int64_t number = 1; number <= 4; ++number) {
      ring_step(comm, timeline, clock, number);
      findings.expect(!report, [] { return std::string("written too early"); });
      report = timeline.after_step();
    }
    findings.expect(report && report->warnings.empty(),
                    [] { return std::string("not written, or with warnings"); });
    findings.expect(!timeline.finish(), [] { return std::string("written twice"); });
    expect_sound(comm, findings, file, [&](const test::TraceReader& trace) {
      findings.expect_equal<std::size_t>(trace.arrows(), 4 * 3 * 4, "arrows");
      // Without alignment, the messages 3 -> 0 would arrive before they are sent.
      const double error_us = trace.other().at("clock_error_us").get<double>();
      findings.expect(error_us > 0 && error_us < kApartNs * 1e-3,
                      [&] { return fmt::format("clock error {} us", error_us); });
    });
  });
}

TEST_CASE("events that do not fit are counted, and the arrows left out") {
  for_comms("a full timeline", {2}, [](const Comm& comm, Findings& findings) {
    const SharedDirectory directory(comm);
    const std::filesystem::path file = directory.path() / "trace.json.gz";
    RunTimeline timeline(comm, ring_of(comm), request_to(file, {1, 2}));
    ring_step(comm, timeline, Trace::now_ns, 1);
    timeline.after_step();
    // Steps are expected to be like those before.
    ring_step(comm, timeline, Trace::now_ns, 2);
    constexpr std::int64_t kMore = 40'000;
    for (std::int64_t i = 0; i < kMore; ++i) {
      const std::int64_t now = Trace::now_ns();
      timeline.recorder().phase(Phase::kForward, "conv1", now, now);
    }
    const std::optional<TraceReport> report = timeline.after_step();
    findings.expect(report && report->warnings.size() == 1 &&
                        report->warnings[0].find("were dropped") != std::string::npos,
                    [] { return std::string("no warning of dropped events"); });
    expect_sound(comm, findings, file, [&](const test::TraceReader& trace) {
      const auto dropped = trace.other().at("dropped_events").get<std::int64_t>();
      const auto kept = static_cast<std::int64_t>(trace.slices().size());
      findings.expect_equal<std::int64_t>(dropped + kept, 2 * (2 * (2 * 4 + 1) + kMore),
                                          "events kept and dropped");
      findings.expect(dropped > 0, [] { return std::string("none dropped"); });
      findings.expect_equal<std::size_t>(trace.arrows(), 0, "arrows");
    });
  });
}

TEST_CASE("a run that ends before or within the window leaves what there was") {
  for_comms("short runs", {3}, [](const Comm& comm, Findings& findings) {
    const SharedDirectory directory(comm);
    for (const std::int64_t steps : {0, 1, 3}) {
      const std::filesystem::path file = directory.path() / fmt::format("{}.json.gz", steps);
      RunTimeline timeline(comm, ring_of(comm), request_to(file));
      for (std::int64_t number = 1; number <= steps; ++number) {
        ring_step(comm, timeline, Trace::now_ns, number);
        timeline.after_step();
      }
      const std::optional<TraceReport> report = timeline.finish();
      findings.expect(report.has_value() && report->warnings.size() == (steps == 0 ? 0U : 1U),
                      [] { return std::string("no warning of a short window"); });
      findings.expect_equal(std::filesystem::exists(file), steps > 0, "a file is written");
      if (steps == 0) continue;
      const std::size_t in_window = steps == 3 ? 2 : 0;
      expect_sound(comm, findings, file, [&](const test::TraceReader& trace) {
        findings.expect_equal(trace.slices_of(0).size(), 3 * in_window, "steps");
        findings.expect_equal(trace.arrows(), 3 * 4 * in_window, "arrows");
      });
    }
  });
}

TEST_CASE("only the ranks asked for are traced; a file that cannot be written is one error") {
  for_comms("chosen ranks", {4}, [](const Comm& comm, Findings& findings) {
    const SharedDirectory directory(comm);
    const std::filesystem::path file = directory.path() / "trace.json.gz",
                                nowhere = directory.path() / "none" / "trace.json.gz";
    for (const std::filesystem::path& path : {file, nowhere}) {
      TraceRequest request = request_to(path, {1, 1});
      request.ranks = {2, 3};
      RunTimeline timeline(comm, ring_of(comm), request);
      ring_step(comm, timeline, Trace::now_ns, 1);
      std::string message;
      try {
        timeline.after_step();
      } catch (const Error& error) {
        message = error.what();
      }
      findings.expect(message.empty() == (path == file), [&] { return "message: " + message; });
      findings.expect(path == file || message.find(nowhere.string()) != std::string::npos,
                      [&] { return "message without the file: " + message; });
    }
    expect_sound(comm, findings, file, [&](const test::TraceReader& trace) {
      findings.expect_equal<std::size_t>(trace.slices_of(0).size(), 2, "steps");
      findings.expect_equal<std::size_t>(trace.arrows(), 4, "arrows");  // 2 -> 3
      findings.expect(trace.ranks() == std::set<std::int64_t>{2, 3},
                      [] { return std::string("other ranks"); });
    });
  });
}

}  // namespace
}  // namespace halomesh
