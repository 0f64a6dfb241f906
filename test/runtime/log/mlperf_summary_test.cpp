// SPDX-License-Identifier: Apache-2.0
// Summaries of MLPerf logs: literal logs, whole and damaged, and scores from literal times.
#include "runtime/log/mlperf_summary.hpp"

#include <doctest/doctest.h>

#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

std::string line(std::int64_t ms, const std::string& key, const std::string& value = "null",
                 const std::string& metadata = "{}") {
  return fmt::format(
      ":::MLLOG {{\"namespace\": \"\", \"time_ms\": {}, \"event_type\": \"x\", \"key\": \"{}\", "
      "\"value\": {}, \"metadata\": {}}}\n",
      ms, key, value, metadata);
}

std::string epoch(std::int64_t ms, int number, const std::string& error) {
  const std::string metadata = fmt::format("{{\"epoch_num\": {}}}", number);
  return line(ms, "epoch_start", "null", metadata) + line(ms + 1, "eval_error", error, metadata);
}

/// A run of two epochs, and half a minute of staging, in three minutes.
std::string log_text(const std::string& last_error = "0.12",
                     const std::string& status = "success") {
  return "some launcher's words\n" + line(1000, "init_start") + line(60000, "run_start") +
         line(61000, "staging_start") + "rank 0: " + line(91000, "staging_stop") +
         epoch(100000, 1, "0.5") + epoch(150000, 2, last_error) +
         line(240000, "run_stop", "null", "{\"status\": \"" + status + "\"}");
}

MlperfRun run_of(MlperfEnd end, double minutes) {
  MlperfRun run;
  run.end = end;
  run.minutes = minutes;
  return run;
}

std::vector<MlperfRun> runs_of(std::initializer_list<double> reached, int missed) {
  std::vector<MlperfRun> runs;
  for (const double minutes : reached) runs.push_back(run_of(MlperfEnd::kReached, minutes));
  // A miss may have been quick: it counts as the slowest all the same.
  for (int i = 0; i < missed; ++i) runs.push_back(run_of(MlperfEnd::kMissed, 0.5));
  return runs;
}

}  // namespace

TEST_CASE("a log says how long its run took, how far it came, and how it staged") {
  const MlperfRun run = read_mlperf_run(log_text(), "log", 0.124);
  CHECK(run.end == MlperfEnd::kReached);
  CHECK(run.epochs == 2);
  CHECK(run.best_error == 0.12);
  CHECK(run.staging_s == doctest::Approx(30));
  CHECK(run.minutes == 3);
  CHECK(run.resumed == 0);
}

TEST_CASE("a run misses its target in four ways") {
  CHECK(read_mlperf_run(log_text("0.2"), "log", 0.124).end == MlperfEnd::kMissed);
  CHECK(read_mlperf_run(log_text("0.12", "aborted"), "log", 0.124).end == MlperfEnd::kMissed);
  CHECK(read_mlperf_run(log_text("null"), "log", 0.124).end == MlperfEnd::kMissed);
  CHECK(read_mlperf_run(log_text("0.0"), "log", 0.124).end == MlperfEnd::kMissed);
  std::string text = log_text();
  text.resize(text.rfind(":::MLLOG"));
  const MlperfRun unfinished = read_mlperf_run(text, "log", 0.124);
  CHECK(unfinished.end == MlperfEnd::kUnfinished);
  CHECK(!unfinished.minutes);
}

TEST_CASE("staging of every job of a run counts, and epochs count once") {
  std::string text = log_text();
  const std::string resumed = line(95000, "staging_start") + line(97500, "staging_stop") +
                              line(98000, "resumed", "7") + epoch(99000, 2, "0.3");
  text.insert(text.rfind(":::MLLOG"), resumed);
  const MlperfRun run = read_mlperf_run(text, "log", 0.124);
  CHECK(run.staging_s == doctest::Approx(32.5));
  CHECK(run.epochs == 2);
  CHECK(run.resumed == 1);
}

TEST_CASE("damaged logs are refused, naming file and line") {
  const auto error = [](const std::string& text) {
    return error_of([&] { read_mlperf_run(text, "the.log", 0.124); });
  };
  CHECK(contains(error(""), "the.log: no run_start"));
  CHECK(contains(error("a poem\nof two lines\n"), "the.log: no run_start"));
  CHECK(contains(error(log_text() + log_text()), "a second run_start"));
  CHECK(contains(error(line(5, "run_start") + ":::MLLOG {\"names"), "the.log: line 2: not a line"));
  CHECK(contains(error(":::MLLOG [1]\n"), "the.log: line 1: not a line"));
  CHECK(contains(error(":::MLLOG {\"key\": 5, \"time_ms\": 1}\n"), "line 1: not a line"));
  CHECK(
      contains(error(":::MLLOG {\"key\": \"run_start\", \"time_ms\": \"late\"}\n"), "not a line"));
  for (const char* time : {"1e300", "-1e300", "9223372036854775807"})
    CHECK(
        contains(error(fmt::format(":::MLLOG {{\"key\": \"run_start\", \"time_ms\": {}}}\n", time)),
                 "the.log: line 1: a time_ms of "));
  CHECK(contains(error(line(1, "run_start") + line(2, "epoch_start")),
                 "epoch_start without epoch_num"));
  CHECK(contains(error(line(1, "run_start") + line(2, "epoch_start", "1", "[]")),
                 "without epoch_num"));
  CHECK(contains(error(line(9, "run_start") + line(2, "run_stop")), "stops before it starts"));
  CHECK(contains(error(std::string("\0\xff:::MLLOG \xff\0", 13)), "line 1: not a line"));
}

TEST_CASE("the olympic mean leaves out the fastest and the slowest run") {
  struct Row {
    std::vector<MlperfRun> runs;
    std::optional<double> mean;
    std::string reason;
  };
  const std::vector<Row> rows = {
      {runs_of({3, 1, 2}, 0), 2, ""},
      {runs_of({10, 1, 4, 5, 6}, 0), 5, ""},
      {runs_of({10, 1, 4, 5}, 1), 19.0 / 3, ""},
      {runs_of({10, 1, 4, 5}, 2), {}, "2 runs missed"},
      {runs_of({1, 2}, 0), {}, "2 runs, at least 3"},
      {runs_of({}, 0), {}, "0 runs, at least 3"},
      {runs_of({}, 4), {}, "4 runs missed"},
  };
  for (const Row& row : rows) {
    const MlperfScore score = score_runs(row.runs);
    CAPTURE(score.reason);
    REQUIRE(score.olympic_minutes.has_value() == row.mean.has_value());
    if (row.mean) CHECK(*score.olympic_minutes == doctest::Approx(*row.mean));
    CHECK(contains(score.reason, row.reason));
    CHECK(score.reason.empty() == row.mean.has_value());
  }
}

}  // namespace halomesh
