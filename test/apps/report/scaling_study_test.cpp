// SPDX-License-Identifier: Apache-2.0
// A report on the file of a scaling study: its lines, predictions and table.
#include <doctest/doctest.h>

#include "src/apps/report/html_page.hpp"
#include "test/apps/report/report_scene.hpp"

namespace halomesh {
namespace {

std::string run(const char* scaling, int ranks, const char* parts, int batch, double step_s,
                const char* more) {
  return fmt::format(
      R"({{"scaling": "{}", "parts": "{}", "replicas": 1, "ranks": {}, "precision": "fp32",)"
      R"("batch": {}, "local_batch": 1, "mean_step_seconds": {}, "step_seconds":)"
      R"({{"median": {}, "min": {}, "max": {}}}, "samples_per_second": {{"median": {},)"
      R"("min": {}, "max": {}}}, "efficiency": 0.75{}}})",
      scaling, parts, ranks, batch, step_s, step_s, step_s / 2, step_s * 2, batch / step_s,
      batch / step_s / 2, batch / step_s * 2, more);
}

const Figure* figure_of(const Section& section, const std::string& id) {
  for (const Figure& figure : section.figures)
    if (figure.id == id) return &figure;
  return nullptr;
}

TEST_CASE("strong and weak runs of a study go into a figure each, with predictions") {
  const TempDirectory directory;
  const auto file = directory.path() / "study.json";
  std::ofstream(file) << "{\"study\": {}, \"measurements\": [], \"runs\": ["
                      << run("strong", 1, "1x1x1", 4, 4, "") << ','
                      << run("strong", 2, "1x1x1", 4, 2.5, R"(, "predicted_step_seconds": 2)")
                      << ',' << run("strong", 2, "2x1x1", 4, 3, "") << ','
                      << run("weak", 1, "1x1x1", 1, 1, "") << ','
                      << run("weak", 2, "1x1x1", 2, 1.25, "") << "]}";
  ReportInput input;
  add_input(input, file.string(), 0.1);
  CHECK(input.problems.empty());
  REQUIRE(input.benches.size() == 1);
  const Section section = bench_section(input);
  const Figure* const strong = figure_of(section, "bench-strong");
  REQUIRE(strong != nullptr);
  // Of the strong runs alone: the fastest on two ranks, its prediction, and the ideal.
  REQUIRE(strong->series.size() == 3);
  REQUIRE(strong->series[0].data.size() == 2);
  CHECK(strong->series[0].data[1].y == doctest::Approx(1.6));
  CHECK(strong->series[0].data[1].low.value() == doctest::Approx(0.8));
  CHECK(strong->series[1].name.find("predicted") == 0);
  CHECK(strong->series[1].data[0].y == doctest::Approx(2));
  CHECK(strong->series[2].data[1].y == doctest::Approx(2));
  const Figure* const weak = figure_of(section, "bench-throughput");
  REQUIRE(weak != nullptr);
  REQUIRE(weak->series.size() == 2);  // one mesh, and its ideal
  CHECK(weak->series[0].data[1].y == doctest::Approx(1.6));
  REQUIRE(section.tables.size() == 1);
  CHECK(section.tables[0].rows.size() == 5);
  const std::string page = html(make_page(input));
  CHECK(page.find("75.0") != std::string::npos);
}

TEST_CASE("a study without runs is named as a problem") {
  const TempDirectory directory;
  const auto file = directory.path() / "study.json";
  std::ofstream(file) << R"({"study": {}, "measurements": [], "runs": []})";
  ReportInput input;
  add_input(input, file.string(), 0.1);
  REQUIRE(input.problems.size() == 1);
  CHECK(input.problems[0].find("study.json") != std::string::npos);
}

}  // namespace
}  // namespace halomesh
