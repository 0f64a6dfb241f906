// SPDX-License-Identifier: Apache-2.0
// Times, scores, staging and throughput against numbers worked out by hand.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "joined.hpp"
#include "test/apps/report/report_scene.hpp"

namespace halomesh {
namespace {

/// A run's directory named `name` with its log and, if `json` is not empty, its run.json.
std::filesystem::path put_run(const TempDirectory& directory, const std::string& name,
                              const LogScene& log, const std::string& json = "") {
  const std::filesystem::path run = directory / name;
  std::filesystem::create_directory(run);
  put_contents(run / "mllog.txt", log.text());
  if (!json.empty()) put_contents(run / "run.json", json);
  return run;
}

}  // namespace

TEST_CASE("report: the parts of the time to solution add up") {
  const TempDirectory directory;
  LogScene log;
  log.staging_s = 6;
  log.rest_s = 10;  // 6 + 2 (10 + 2) + 10 = 40 s
  const ReportInput input = input_of({put_run(directory, "one", log)});
  REQUIRE(input.runs.size() == 1);
  const RunNumbers& run = input.runs[0];
  CHECK(run.reached);
  CHECK(run.epochs == 2);
  CHECK(run.times.total() == doctest::Approx(40));
  CHECK(run.times.staging == doctest::Approx(6));
  CHECK(run.times.training == doctest::Approx(20));
  CHECK(run.times.evaluation == doctest::Approx(4));
  CHECK(run.times.rest() == doctest::Approx(10));
  CHECK(run.epoch_seconds() == doctest::Approx(12));
  CHECK(run.training_rate() == doctest::Approx(2 * 8 / 20.0));
  CHECK(run.evaluation_rate() == doctest::Approx(2 * 4 / 4.0));
  CHECK(run.staging_epochs() == doctest::Approx(0.5));

  const Page page = make_page(input);
  const Figure& bars = figure_of(page, "time-parts");
  CHECK(bars.categories == std::vector<std::string>{"one"});
  const std::pair<const char*, double> parts[] = {
      {"staging", 15}, {"evaluation", 10}, {"training", 50}, {"rest", 25}};
  for (const auto& row : parts) {
    const auto& [name, percent] = row;
    CAPTURE(row.first);
    REQUIRE(series_of(bars, name).data.size() == 1);
    CHECK(series_of(bars, name).data[0].y == doctest::Approx(percent));
  }
  const Table& equation = table_of(page, "equation");
  CHECK(cell_of(equation, "one", "T_sol in s") == "40");
  CHECK(cell_of(equation, "one", "q") == "0.5000");
  CHECK(cell_of(equation, "one", "q / (q + E)") == "20.0 %");
  CHECK(cell_of(equation, "one", "T_stg / T_sol") == "15.0 %");
  CHECK(cell_of(equation, "one", "T_extra in s") == "10 *");
  CHECK(contains(joined(page.verdict, " "),
                 "one reached a validation MAE of 0.12000 (target 0.124) after "
                 "2 epochs in 40 s"));
}

TEST_CASE("report: staging is compared with an epoch that includes its validation") {
  const TempDirectory directory;
  // Cori-GPU: 989 s of staging, epochs of 386 s; Fugaku on 512 nodes: 93 s and 144.8 s.
  LogScene cori, fugaku;
  cori.staging_s = 989;
  cori.training_s = 338.7;
  cori.evaluation_s = 47.3;
  fugaku.staging_s = 93;
  fugaku.training_s = 127.24;
  fugaku.evaluation_s = 17.56;
  fugaku.batch = 8;  // another group
  const Page page =
      make_page(input_of({put_run(directory, "cori", cori), put_run(directory, "fugaku", fugaku)}));
  const Table& table = table_of(page, "staging-ratio");
  CHECK(cell_of(table, "cori", "staging / epoch") == "2.56");
  CHECK(cell_of(table, "cori", "epoch in s") == "386");
  CHECK(cell_of(table, "cori", "staging in min") == "16.48");
  CHECK(cell_of(table, "fugaku", "staging / epoch") == "0.64");
}

TEST_CASE("report: throughput per rank and budget") {
  const TempDirectory directory;
  LogScene log;  // 364.73 min on 64 ranks are 389.05 h
  log.rest_s = 364.73 * 60 - 24;
  const Page page =
      make_page(input_of({put_run(directory, "one", log, run_json(64, "1x1x1", 64, 4))}));
  const Table& table = table_of(page, "throughput");
  CHECK(cell_of(table, "one", "budget in h x ranks") == "389.05");
  CHECK(cell_of(table, "one", "time to solution in min") == "364.7");
  CHECK(cell_of(table, "one", "training in samples/s per rank") == shown(0.8 / 64));
  CHECK(cell_of(table, "one", "evaluation in samples/s per rank") == shown(2.0 / 64));
  CHECK(cell_of(table, "one", "epochs") == "2");
  CHECK(cell_of(table, "Cori-GPU 64 (published)", "budget in h x ranks") == "389.05");
}

TEST_CASE("report: the score of published runs is that of their logs") {
  const TempDirectory directory;
  // Minutes of each run, and the olympic mean, of MLPerf HPC v0.7's logs.
  std::string text =
      "division,system,submission,software,processors,accelerators,minutes,reached\n";
  struct Row {
    const char* name;
    std::vector<double> minutes;
    int missed;  // number of the run that missed the target; 0: none
    const char* olympic;
  };
  const std::vector<Row> all = {
      {"F512",
       {198.40, 281.22, 225.31, 295.60, 243.62, 208.14, 236.79, 257.13, 282.10, 260.46},
       4,
       "249.35"},
      {"F8192",
       {118.54, 82.93, 117.71, 97.79, 132.84, 86.66, 86.01, 106.64, 106.18, 92.38},
       0,
       "101.49"},
      {"F16384",
       {29.42, 29.52, 30.56, 28.92, 29.56, 30.14, 30.69, 30.22, 30.48, 30.94},
       0,
       "30.07"},
      {"KNL512",
       {443.21, 556.15, 478.54, 549.90, 643.38, 482.48, 503.94, 630.89, 430.00, 703.28},
       0,
       "536.06"},
      {"KNL1024",
       {635.77, 341.62, 421.29, 389.77, 370.55, 512.01, 338.80, 448.36, 413.97, 459.98},
       0,
       "419.69"}};
  for (const Row& row : all)
    for (std::size_t i = 0; i < row.minutes.size(); ++i)
      text += fmt::format("closed,\"a, b\",{},TF,1,0,{},{}\n", row.name, row.minutes[i],
                          static_cast<int>(i) + 1 == row.missed ? "no" : "yes");
  put_contents(directory / "results.csv", text);
  const ReportInput input = input_of({directory / "results.csv"});
  CHECK(input.problems.empty());
  const Page page = make_page(input);
  const Table& table = table_of(page, "scores");
  std::set<std::string> compared;
  for (const Row& row : all)
    for (const auto& cells : table.rows)
      if (cells[2] == row.name) {
        CHECK(cells[1] == "a, b");
        CHECK(cells[6] == "10");
        CHECK(cells[7] == (row.missed > 0 ? "1" : "0"));
        CHECK(cells[8] == row.olympic);
        compared.insert(row.name);
      }
  CHECK(compared.size() == 5);
}

TEST_CASE("report: runs that differ in their seed are one group") {
  const TempDirectory directory;
  LogScene log;
  std::vector<std::filesystem::path> runs;
  for (const int epochs : {2, 3, 4}) {
    log.epochs = epochs;
    runs.push_back(
        put_run(directory, fmt::format("run{}", epochs), log, run_json(4, "2x2x1", 16, 4)));
  }
  ReportInput input = input_of(runs);
  const std::vector<RunGroup> groups = group_runs(input.runs);
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].label == "4 x 2x2x1 parts, batch 4 (3 runs)");
  CHECK(groups[0].epochs().mean == 3);
  CHECK(groups[0].epochs().deviation == 1);
  const Page page = make_page(input);
  // 24, 36 and 48 s: the olympic mean is that of the middle run.
  CHECK(table_of(page, "scores").rows.at(0).at(8) == "0.60");
  CHECK(cell_of(table_of(page, "throughput"), groups[0].label, "epochs") == "3 ± 1");
}

}  // namespace halomesh
