// SPDX-License-Identifier: Apache-2.0
// Curves, differences between runs, and files that are damaged or missing.
#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "joined.hpp"
#include "test/apps/report/report_scene.hpp"

namespace halomesh {
namespace {

std::filesystem::path put_run(const TempDirectory& directory, const std::string& name,
                              const std::string& json, const std::string& metrics) {
  const std::filesystem::path run = directory / name;
  std::filesystem::create_directory(run);
  if (!json.empty()) put_contents(run / "run.json", json);
  put_contents(run / "metrics.jsonl", metrics);
  return run;
}

/// Two epochs of two steps, batch 4; steps of 2 s, validations of 1 s.
std::string two_epochs(double start) {
  const auto at = [&](double seconds) { return start > 0 ? start + seconds : 0; };
  return step_line(1, 0, 0.8, 2, at(2)) + step_line(2, 0, 0.6, 2, at(4)) +
         eval_line(0, 0.3, 1, at(5)) + step_line(3, 1, 0.5, 2, at(7)) +
         step_line(4, 1, 0.4, 2, at(9)) + eval_line(1, 0.2, 1, at(10));
}

}  // namespace

TEST_CASE("report: curves against epochs and time") {
  const TempDirectory directory;
  // With times of day and without them the curves are the same.
  for (const double start : {0.0, 1'790'000'000.0}) {
    CAPTURE(start);
    const auto run = put_run(directory, start > 0 ? "timed" : "untimed", run_json(1, "1x1x1", 1, 4),
                             two_epochs(start));
    const Page page = make_page(input_of({run}));
    const Figure& loss = figure_of(page, "loss-over-epochs");
    REQUIRE(loss.series.size() == 1);
    REQUIRE(loss.series[0].data.size() == 4);
    CHECK(loss.series[0].data[0].x == doctest::Approx(0.5));
    CHECK(loss.series[0].data[3].x == doctest::Approx(2));
    CHECK(loss.series[0].data[3].y == doctest::Approx(0.4));
    REQUIRE(loss.top);
    CHECK(loss.top->factor == 2);
    const Figure& over_time = figure_of(page, "loss-over-time");
    CHECK(over_time.series.at(0).data.at(2).x == doctest::Approx(7));
    const Figure& mae = figure_of(page, "mae-over-time");
    REQUIRE(mae.series.at(0).data.size() == 2);
    CHECK(mae.series[0].data[0].x == doctest::Approx(5));
    CHECK(mae.series[0].data[1].x == doctest::Approx(10));
    CHECK(mae.series[0].data[1].y == doctest::Approx(0.2));
    CHECK(figure_of(page, "mae-over-epochs").series.at(0).data.at(1).x == 2);
    REQUIRE(mae.levels.size() == 1);
    CHECK(mae.levels[0].factor == 0.124);
    CHECK(mae.levels[0].power == 0);
    const Figure& rate = figure_of(page, "rate-over-epochs");
    REQUIRE(rate.series.at(0).data.size() == 4);
    CHECK(rate.series[0].data[0].y == doctest::Approx(2));
    CHECK(figure_of(page, "learning-rate-over-epochs").series.at(0).data.size() == 4);
    CHECK_FALSE(has_figure(page, "loss-over-steps"));
    CHECK(contains(joined(page.verdict, " "),
                   "did not reach the target MAE of 0.124: its best is 0.20000"));
    CHECK(contains(joined(page.verdict, " "),
                   "(the run has not ended); it trains 2 samples/s on 1 rank"));
  }
}

TEST_CASE("report: a run that has ended by its run.json") {
  const TempDirectory directory;
  // 10:00:00 to 10:00:20 UTC.
  const auto run = put_run(
      directory, "one", run_json(1, "1x1x1", 1, 4, R"(,"end":{"time":1795341620,"result":"done"})"),
      two_epochs(1795341605));
  const ReportInput input = input_of({run});
  REQUIRE(input.runs.at(0).times.solution);
  CHECK(*input.runs[0].times.solution == doctest::Approx(20));
  CHECK(input.runs[0].times.training == doctest::Approx(8));
  CHECK(input.runs[0].times.evaluation == doctest::Approx(2));
  CHECK(input.runs[0].epochs == 2);
  CHECK(input.runs[0].epoch_s == std::vector<double>{5, 5});
}

TEST_CASE("report: differing options and networks are shown") {
  const TempDirectory directory;
  std::string other = run_json(1, "1x1x1", 1, 8);
  other.replace(other.find("cosmoflow"), 9, "othernet!");
  const Page page =
      make_page(input_of({put_run(directory, "a", run_json(1, "1x1x1", 1, 4), two_epochs(0)),
                          put_run(directory, "b", other, two_epochs(0))}));
  const Table& table = table_of(page, "options-different");
  CHECK(table.columns == std::vector<std::string>{"option", "a", "b"});
  CHECK(table.rows.size() == 2);
  CHECK(cell_of(table, "batch", "a") == "4");
  CHECK(cell_of(table, "batch", "b") == "8");
  CHECK(cell_of(table, "model", "b") == "othernet!");
  REQUIRE(page.warnings.size() == 1);
  CHECK(contains(page.warnings[0], "different networks"));
  CHECK(figure_of(page, "loss-over-epochs").series.size() == 2);
  // Steps per epoch differ: steps have figures of their own.
  CHECK_FALSE(figure_of(page, "loss-over-epochs").top);
  CHECK(has_figure(page, "loss-over-steps"));
}

TEST_CASE("report: each wrong input has one message and the rest is reported") {
  const TempDirectory directory;
  const auto good = put_run(directory, "good", run_json(1, "1x1x1", 1, 4), two_epochs(0));
  const auto cut =
      put_run(directory, "cut", run_json(1, "1x1x1", 1, 4), two_epochs(0) + R"({"event":"st)");
  std::filesystem::create_directory(directory / "empty");
  std::filesystem::create_directory(directory / "silent");
  put_contents(directory / "silent" / "run.json", run_json(1, "1x1x1", 1, 4));
  put_contents(directory / "silent" / "metrics.jsonl", "");
  put_contents(directory / "bench.json", R"({"runs":[]})");
  put_contents(directory / "trace.json.gz", R"({"traceEvents":[]})");
  put_contents(directory / "broken.json.gz", R"({"traceEvents":[{"ph":)");
  put_contents(directory / "predictions.csv", "sample,predicted_0,target_0\n0,1,x\n");
  put_contents(directory / "short.csv", "sample,predicted_0,target_0\n0,1\n");
  put_contents(directory / "results.csv", "submission,minutes\na,-1\n");
  put_contents(directory / "other.csv", "a,b\n1,2\n");
  put_contents(directory / "file.bin", "abc");
  put_contents(directory / "log.txt", ":::MLLOG {\n");
  put_contents(directory / "wrong.h5", "not HDF5");
  const std::pair<std::string, std::string> rows[] = {
      {"nowhere", "does not exist"},
      {"empty", "neither run.json nor metrics.jsonl"},
      {"silent", "no step has been recorded"},
      {"cut", "line 7 is incomplete"},
      {"bench.json", "not a file of bench --json"},
      {"trace.json.gz", "no traced step"},
      {"broken.json.gz", "not JSON"},
      {"predictions.csv", "line 2: 'x' is not a number"},
      {"short.csv", "line 2: 2 values instead of 3"},
      {"results.csv", "line 2: '-1' is not a number of at least 0"},
      {"other.csv", "neither predictions nor results"},
      {"file.bin", "not a file that a report can show"},
      {"log.txt", "line 1: not a line of an MLPerf log"},
      {"wrong.h5", "wrong.h5"}};
  int compared = 0;
  for (const auto& row : rows) {
    const auto& [name, message] = row;
    CAPTURE(row.first);
    const ReportInput input = input_of({good, directory / name});
    REQUIRE(input.problems.size() == 1);
    CHECK(contains(input.problems[0], name));
    CHECK(contains(input.problems[0], message));
    const Page page = make_page(input);
    CHECK(page.warnings == input.problems);
    CHECK(figure_of(page, "loss-over-epochs").series.at(0).name == "good");
    ++compared;
  }
  CHECK(compared == 14);
}

TEST_CASE("report: five runs of 100,000 steps are read within seconds") {
  const TempDirectory directory;
  std::string metrics;
  for (int step = 1; step <= 100'000; ++step) {
    metrics += step_line(step, (step - 1) / 1000, 1.0 / step, 0.1, 1'790'000'000 + 0.1 * step);
    if (step % 1000 == 0) metrics += eval_line(step / 1000 - 1, 0.2, 1, 1'790'000'000 + 0.1 * step);
  }
  std::vector<std::filesystem::path> runs;
  for (const char* name : {"a", "b", "c", "d", "e"})
    runs.push_back(put_run(directory, name, "", metrics));
  const auto start = std::chrono::steady_clock::now();
  const ReportInput input = input_of(runs);
  const Page page = make_page(input);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  CHECK(figure_of(page, "loss-over-epochs").series.at(4).data.size() == 100'000);
  CHECK(figure_of(page, "rate-over-epochs").series.at(0).data.size() <= 400);
  CHECK(page.raw_json.size() < 100'000);
  MESSAGE("5 runs of 100,000 steps: ", seconds.count(), " s");
  CHECK(seconds.count() < 60);  // some 2 s on an idle machine
}

}  // namespace halomesh
