// SPDX-License-Identifier: Apache-2.0
// Batch size, epochs and throughput; bench; rooflines and extrapolation.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "joined.hpp"
#include "src/apps/report/extrapolation.hpp"
#include "test/apps/report/report_scene.hpp"

namespace halomesh {
namespace {

std::filesystem::path put_run(const TempDirectory& directory, const std::string& name,
                              const LogScene& log, const std::string& json) {
  const std::filesystem::path run = directory / name;
  std::filesystem::create_directory(run);
  put_contents(run / "mllog.txt", log.text());
  put_contents(run / "run.json", json);
  return run;
}

std::string bench_run(const std::string& parts, int ranks, double rate, int local_batch = 1,
                      const std::string& more = "") {
  return fmt::format(
      R"({{"parts":"{}","replicas":{},"ranks":{},"precision":"fp32","batch":{},"local_batch":{},
"step_seconds":{{"median":0.1,"min":0.1,"max":0.1}},
"samples_per_second":{{"median":{},"min":{},"max":{}}},
"evaluated_samples_per_second":{{"median":{},"min":1,"max":1}},
"mean_step_seconds":0.1,"peak_fraction":0.25{}}})",
      parts, ranks, ranks, ranks * local_batch, local_batch, rate, 0.9 * rate, 1.1 * rate, 4 * rate,
      more);
}

std::filesystem::path put_bench(const TempDirectory& directory, const std::string& name,
                                const std::string& runs) {
  put_contents(directory / name,
               R"({"threads":2,"machine":{"cpu":"A64FX"},"peak":{"fp32_flops_per_second":4e12,)"
               R"("bf16_flops_per_second":0,"triad_bytes_per_second":1e12},"runs":[)" +
                   runs + "]}");
  return directory / name;
}

const LevelLine& level_of(const Figure& figure, const std::string& label) {
  for (const LevelLine& level : figure.levels)
    if (level.label == label) return level;
  FAIL("no level ", label);
  throw Error("no level " + label);
}

}  // namespace

TEST_CASE("report: batch size, epochs and throughput of runs and published ones") {
  const TempDirectory directory;
  LogScene one, two;
  two.batch = 8;
  two.epochs = 4;
  ReportInput input = input_of({put_run(directory, "one", one, run_json(2, "2x1x1", 4, 4)),
                                put_run(directory, "two", two, run_json(8, "1x1x1", 8, 8))});
  const Page page = make_page(input);

  const Figure& batches = figure_of(page, "batch-ranks");
  CHECK(batches.x.logarithmic);
  REQUIRE(series_of(batches, "runs").data.size() == 2);
  CHECK(series_of(batches, "runs").data[0].x == 4);
  CHECK(series_of(batches, "runs").data[1].y == 8);
  CHECK(series_of(batches, "published").published);
  CHECK(series_of(batches, "published").data.size() == 12);
  CHECK(level_of(batches, "16 ranks per sample").factor == 1.0 / 16);
  CHECK(level_of(batches, "0.25 ranks per sample").factor == 4);

  const Figure& epochs = figure_of(page, "batch-epochs");
  CHECK(series_of(epochs, "runs").data.at(1).x == 4);
  // 8 samples: at batch 8 an epoch is a step, at batch 4 two.
  CHECK(level_of(epochs, "10 steps").factor == doctest::Approx(0.8));

  const Figure& rates = figure_of(page, "throughput-ranks");
  // 16 samples in 20 s; 8 validated in 4 s; 12 samples in 12 s.
  CHECK(series_of(rates, "training").data.at(0).y == doctest::Approx(0.8));
  CHECK(series_of(rates, "evaluation").data.at(0).y == doctest::Approx(2));
  CHECK(series_of(rates, "combined").data.at(0).y == doctest::Approx(1));
  REQUIRE(rates.right);
  CHECK(rates.right->factor == doctest::Approx(1.0 / 12));
  CHECK(series_of(rates, "published, training").data.at(0).y ==
        doctest::Approx(2060.3).epsilon(1e-4));
  CHECK(series_of(rates, "published, evaluation").data.at(0).y ==
        doctest::Approx(3731.9).epsilon(1e-3));

  const Figure& speed = figure_of(page, "epoch-rate");
  CHECK(series_of(speed, "runs").data.at(0).y == doctest::Approx(1.0 / 12));
  CHECK(level_of(speed, "60 s").factor == doctest::Approx(1.0 / 60));

  input.show_published = false;
  for (const Figure& figure : scaling_section(input).figures)
    for (const Series& series : figure.series) CHECK_FALSE(series.published);
}

TEST_CASE("report: one sample per rank") {
  const TempDirectory directory;
  LogScene one, two;
  one.rest_s = 36;  // 24 + 36 s
  two.batch = 8;
  two.epochs = 5;
  const Page page =
      make_page(input_of({put_run(directory, "two", two, run_json(8, "1x1x1", 8, 8)),
                          put_run(directory, "one", one, run_json(4, "1x1x1", 4, 4))}));
  const Series& time = figure_of(page, "weak-time").series.at(0);
  REQUIRE(time.data.size() == 2);
  CHECK(time.data[0].x == 4);
  CHECK(time.data[0].y == doctest::Approx(1));
  CHECK(time.data[1].y == doctest::Approx(1));
  CHECK(figure_of(page, "weak-epochs").series.at(0).data.at(1).y == 5);
}

TEST_CASE("report: throughput of bench over ranks, before and after") {
  const TempDirectory directory;
  const auto before = put_bench(directory, "before.json",
                                bench_run("1x1x1", 4, 15) + "," + bench_run("1x1x1", 2, 10) + "," +
                                    bench_run("1x1x1", 1, 12, 4));
  const auto after = put_bench(directory, "after.json", bench_run("1x1x1", 1, 20));
  const Page page = make_page(input_of({before, after}));
  const Figure& figure = figure_of(page, "bench-throughput");
  const Series& line = series_of(figure, "1x1x1 parts, fp32, local batch 1 (before)");
  REQUIRE(line.data.size() == 2);
  CHECK(line.dashed);
  CHECK(line.data[0].x == 2);
  CHECK(line.data[1].y == 15);
  CHECK(line.data[1].low.value() == doctest::Approx(13.5));
  const Series& ideal = series_of(figure, "ideal: 1x1x1 parts, fp32, local batch 1 (before)");
  CHECK(ideal.data.at(1).y == doctest::Approx(20));
  CHECK_FALSE(series_of(figure, "1x1x1 parts, fp32, local batch 1 (after)").dashed);
  CHECK(series_of(figure, "1x1x1 parts, fp32, local batch 4 (before)").data.size() == 1);
  const Table& table = table_of(page, "bench-rates");
  REQUIRE(table.rows.size() == 4);
  CHECK(table.rows[0].at(11) == "75.0 %");
  CHECK(table.rows[1].at(11) == "100.0 %");
  CHECK(contains(joined(page.verdict, " "), "before: 15 samples/s on 4 ranks"));
}

TEST_CASE("report: one batch on more ranks, measured and predicted") {
  const TempDirectory directory;
  const std::string predicted = R"(,"predicted_step_seconds":0.5)";
  const auto file =
      put_bench(directory, "scaling.json",
                bench_run("1x1x1", 1, 10, 4) + "," + bench_run("1x1x1", 2, 14, 2, predicted) + "," +
                    bench_run("2x1x1", 2, 16, 2) + "," + bench_run("1x1x1", 2, 20, 4));
  const Page page = make_page(input_of({file}));
  const Figure& figure = figure_of(page, "bench-strong");
  REQUIRE(figure.series.size() == 3);  // the batch of 8 was trained on 2 ranks alone
  const Series& line = series_of(figure, "batch 4, fp32");
  REQUIRE(line.data.size() == 2);
  CHECK(line.data[0].y == 10);
  CHECK(line.data[1].x == 2);
  CHECK(line.data[1].y == 16);
  CHECK(series_of(figure, "predicted: batch 4, fp32").data.at(0).y == doctest::Approx(8));
  CHECK(series_of(figure, "ideal: batch 4, fp32").data.at(1).y == doctest::Approx(20));
}

TEST_CASE("report: the roofline of bench and its bounds") {
  const TempDirectory directory;
  const std::string more =
      R"(,"phases":[{"layer":"conv1","phase":"forward","seconds_mean_over_ranks":0.05,)"
      R"("seconds_max_over_ranks":0.05,"flops":1e11,"memory_bytes":5e10,"flops_per_second":2e12,)"
      R"("roof_fraction":0.5},{"layer":"","phase":"optimizer","seconds_mean_over_ranks":0.01,)"
      R"("flops":0,"memory_bytes":3e10,"flops_per_second":0},)"
      R"({"layer":"fc","phase":"forward","seconds_mean_over_ranks":1e-6,"flops":1,)"
      R"("memory_bytes":1,"flops_per_second":1}],)"
      R"("bound":{"compute_seconds":0.025,"memory_seconds":0.08,"largest":"memory"})";
  const Page page =
      make_page(input_of({put_bench(directory, "bench.json", bench_run("2x1x1", 2, 10, 1, more))}));
  const Figure& figure = figure_of(page, "roofline-1");
  REQUIRE(series_of(figure, "forward").data.size() == 1);
  CHECK(series_of(figure, "forward").data[0].x == doctest::Approx(2));
  CHECK(series_of(figure, "forward").data[0].y == doctest::Approx(2000));
  CHECK(contains(series_of(figure, "forward").data[0].label, "conv1 forward: 50.0 % of the step"));
  const Series& roof = series_of(figure, "roof: 4000 GF/s, 1000 GB/s");
  REQUIRE(roof.data.size() == 3);
  CHECK(roof.data[1].x == doctest::Approx(4));  // 4 Tflop/s at 1 TB/s
  CHECK(roof.data[1].y == doctest::Approx(4000));
  CHECK(roof.data[0].y == doctest::Approx(1000 * roof.data[0].x));
  const Table& bounds = table_of(page, "bounds");
  REQUIRE(bounds.rows.size() == 3);
  CHECK(bounds.rows[1] ==
        std::vector<std::string>{"bench: 2 x 2x1x1", "memory", "80.000", "80.0 %"});
  const Table& memory = table_of(page, "memory-bandwidth");  // 80 GB in 0.1 s
  CHECK(memory.rows.at(0).at(6) == "80.0 %");
}

TEST_CASE("report: time to solution of configurations that did not run") {
  const TempDirectory directory;
  LogScene log;
  log.staging_s = 6;
  const auto run = put_run(directory, "run", log, run_json(2, "2x1x1", 4, 4));
  const auto bench =
      put_bench(directory, "bench.json", bench_run("1x1x1", 1, 2) + "," + bench_run("1x1x1", 4, 6));
  ReportInput input = input_of({run, bench});
  input.predict = parse_configurations("4x2x1x1/4,16x1x1x1/16,1x4x4x1/4");
  REQUIRE(input.predict.size() == 3);
  const std::vector<MeasuredRates> rates = measured_rates(input);
  REQUIRE(rates.size() == 3);

  // Twice the ranks: 8 samples at 1.6/s and 4 at 4/s, two epochs, 6 s of staging.
  const Extrapolation twice = extrapolate(input.predict[0], rates, input);
  CHECK(twice.ranks == 8);
  CHECK(twice.base->source == "run");
  CHECK(twice.seconds_per_epoch == doctest::Approx(6));
  CHECK(twice.seconds == doctest::Approx(18));

  // From bench on 4 ranks, the nearest: 24 samples/s, evaluation 96; epochs are not known.
  const Extrapolation wide = extrapolate(input.predict[1], rates, input);
  CHECK(wide.base->ranks == 4);
  CHECK(wide.seconds_per_epoch == doctest::Approx(8 / 24.0 + 4 / 96.0));
  CHECK_FALSE(wide.epochs);
  CHECK(wide.seconds == 0);
  // Given: 100 +- 5 epochs; rates within 10 %.
  input.epochs_to_target = parse_epochs("100+-5");
  const Extrapolation given = extrapolate(input.predict[1], rates, input);
  CHECK(given.seconds == doctest::Approx(37.5));
  CHECK(given.deviation == doctest::Approx(std::hypot(5 * 0.375, 0.1 * 37.5)));
  CHECK(extrapolate(input.predict[2], rates, input).base == nullptr);

  const Page page = make_page(input);
  const Table& table = table_of(page, "extrapolated");
  CHECK(table.rows.size() == 3);
  CHECK(cell_of(table, "16 x 1x1x1", "epochs") == "100 ± 5");
  CHECK(cell_of(table, "1 x 4x4x1", "rates from") == "nothing was measured with these parts");
  CHECK(series_of(figure_of(page, "extrapolated-time"), "extrapolated").data.size() == 2);
  CHECK(series_of(figure_of(page, "extrapolated-time"), "measured").data.at(0).y ==
        doctest::Approx(0.5));
}

TEST_CASE("report: what is no configuration or number of epochs is refused") {
  for (const char* text : {"1", "2x2", "x1x1x1/4", "2x1x1x1", "2x1x1x1/0", "0x1x1x1/4", "2x1x1/4",
                           "2x1x1x1/4,,", "ax1x1x1/4"}) {
    CAPTURE(text);
    CHECK(contains(error_of([&] { parse_configurations(text); }), "is not a configuration"));
  }
  for (const char* text : {"", "x", "5+-", "5+-x", "-1", "0", "5+--1"}) {
    CAPTURE(text);
    CHECK(contains(error_of([&] { parse_epochs(text); }), "is not a number of epochs"));
  }
  CHECK(parse_epochs("92").deviation == 0);
  CHECK(parse_configurations("512x4x4x1/256").at(0).parts.count() == 16);
}

}  // namespace halomesh
