// SPDX-License-Identifier: Apache-2.0
// Predictions, timelines, machine and statistics.
#include <doctest/doctest.h>
#include <zlib.h>

#include <cmath>
#include <string>

#include "joined.hpp"
#include "runtime/hdf5/hdf5_file.hpp"
#include "src/apps/report/csv.hpp"
#include "test/apps/report/report_scene.hpp"

namespace halomesh {
namespace {

void append_gzip(const std::filesystem::path& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "ab");
  REQUIRE(file != nullptr);
  REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) ==
          static_cast<int>(text.size()));
  gzclose(file);
}

std::string slice(int rank, const char* name, const char* layer, int step, double begin,
                  double length, int track = 0) {
  return fmt::format(
      R"({{"ph":"X","pid":{},"tid":{},"name":"{}","cat":"c","ts":{},"dur":{},"args":{{"step":{},"layer":"{}"}}}})",
      rank, track, name, begin, length, step, layer);
}

}  // namespace

TEST_CASE("report: errors of predictions, from CSV and HDF5") {
  const TempDirectory directory;
  put_contents(directory / "p.csv",
               "sample,predicted_0,predicted_1,target_0,target_1\n0,1,0.5,0,0.5\n1,3,0.5,2,-0.5\n");
  {
    Hdf5File file = Hdf5File::create(directory / "p.h5");
    const std::vector<float> predicted = {1, 0.5, 3, 0.5}, target = {0, 0.5, 2, -0.5};
    for (const auto& [name, values] :
         {std::pair("/predicted", &predicted), std::pair("/target", &target)}) {
      file.create_dataset(name, hdf5_type<float>(), {2, 2});
      file.write(name, Slab::whole({2, 2}), std::span<const float>(*values));
    }
    file.close();
  }
  for (const char* name : {"p.csv", "p.h5"}) {
    CAPTURE(name);
    const ReportInput input = input_of({directory / name});
    REQUIRE(input.problems.empty());
    REQUIRE(input.predictions.size() == 1);
    CHECK(input.predictions[0].predicted.at(1).at(1) == 0.5);
    const Page page = make_page(input);
    const Table& table = table_of(page, "prediction-errors");
    REQUIRE(table.rows.size() == 2);
    // Output 0 is 1 too high twice; output 1 is right once and 1 too high once.
    CHECK(table.rows[0] == std::vector<std::string>{name, "0", "2", "1", "1", "1", "1.0000", "1"});
    CHECK(table.rows[1].at(3) == "0.5000");
    CHECK(table.rows[1].at(4) == shown(std::sqrt(0.5)));
    const Figure& figure = figure_of(page, "predictions-1-0");
    REQUIRE(figure.series.at(0).data.size() == 2);
    CHECK(figure.series[0].data[1].x == 2);
    CHECK(figure.series[0].data[1].y == 3);
    CHECK(contains(joined(page.verdict, " "), "mean absolute error 0.75000 over 2 samples"));
  }
}

TEST_CASE("report: large prediction files are thinned in the figure only") {
  const TempDirectory directory;
  std::string text = "sample,predicted_0,target_0\n";
  for (int i = 0; i < 3000; ++i) text += fmt::format("{},{},{}\n", i, i + 1, i);
  put_contents(directory / "p.csv", text);
  const Page page = make_page(input_of({directory / "p.csv"}));
  CHECK(figure_of(page, "predictions-1-0").series.at(0).data.size() == 500);
  CHECK(table_of(page, "prediction-errors").rows.at(0).at(2) == "3000");
}

TEST_CASE("report: the first traced step of several ranks is a timeline") {
  const TempDirectory directory;
  const auto path = directory / "trace.json.gz";
  // Members of several ranks, one after the other.
  append_gzip(path, R"json({"displayTimeUnit":"ms","otherData":{"ranks":64,"clock_error_us":1.5,
"dropped_events":7},"traceEvents":[{"ph":"M","pid":5,"name":"process_name",
"args":{"name":"rank 5 (replica 1, part 1)"}},)json");
  append_gzip(path, slice(0, "step", "", 6, 1000, 2000) + "," +
                        slice(0, "forward", "conv1", 6, 1100, 500) + "," +
                        slice(0, "halo wait", "conv2", 6, 1700, 300) + "," +
                        slice(0, "send", "conv2", 6, 1700, 300, 1) + "," +
                        slice(0, "step", "", 7, 5000, 2000) + "," +
                        slice(0, "forward", "conv1", 7, 5100, 500) + ",");
  append_gzip(path, slice(5, "step", "", 6, 900, 2000) + "," +
                        slice(5, "forward", "conv1", 6, 1000, 100) + "]}");
  const ReportInput input = input_of({path});
  REQUIRE(input.problems.empty());
  const Page page = make_page(input);
  const Figure& figure = figure_of(page, "timeline-1");
  CHECK(figure.categories == std::vector<std::string>{"rank 0", "rank 5 (replica 1, part 1)"});
  REQUIRE(figure.spans.size() == 3);
  CHECK(figure.spans[0].row == 1);
  CHECK(figure.spans[0].begin == doctest::Approx(0.1));
  CHECK(figure.spans[0].end == doctest::Approx(0.2));
  CHECK(figure.spans[1].row == 0);
  CHECK(figure.spans[1].begin == doctest::Approx(0.2));
  CHECK(figure.spans[2].label == "halo wait conv2");
  CHECK(figure.series.at(figure.spans[1].series).name == "compute");
  CHECK(figure.series.at(figure.spans[2].series).name == "halo wait");
  CHECK(contains(timeline_section(input).paragraphs.at(0), "within 1.500 µs. 7 events"));
}

TEST_CASE("report: of many traced ranks 16 are shown") {
  const TempDirectory directory;
  std::string events;
  for (int rank = 0; rank < 40; ++rank)
    events += (rank > 0 ? "," : "") + slice(rank, "step", "", 1, 0, 10) + "," +
              slice(rank, "forward", "", 1, 1, 2);
  put_contents(directory / "t.json", R"({"traceEvents":[)" + events + "]}");
  const Page page = make_page(input_of({directory / "t.json"}));
  const Figure& figure = figure_of(page, "timeline-1");
  CHECK(figure.categories.size() == 16);
  CHECK(figure.spans.size() == 16);
  CHECK(figure.categories.front() == "rank 0");
  CHECK(figure.categories.back() == "rank 39");
}

TEST_CASE("report: machine, versions and staging of a run") {
  const TempDirectory directory;
  const auto run = directory / "one";
  std::filesystem::create_directory(run);
  put_contents(
      run / "run.json",
      run_json(2, "2x1x1", 4, 4,
               R"(,"job":{"scheduler":"slurm","id":"123"},"network":{"parameters":5597604,)"
               R"("flops_per_sample":56.93e9},"kernels":["conv1: forward ref:any"],)"
               R"("binding":["core 0","core 0","core 1"])"));
  put_contents(run / "metrics.jsonl",
               R"({"event":"stage","seconds":2,"samples":12,"bytes_read":4e9,"bytes_staged":1e9,)"
               R"("reused":false,"read_seconds":4,"read_calls":3,)"
               R"("rank_seconds":{"mean":1.5,"min":1,"max":2,"max_rank":3}})"
               "\n" +
                   step_line(1, 0, 0.5, 1));
  ReportInput input = input_of({run});
  input.command = "halomesh report one";
  const Page page = make_page(input);
  CHECK(cell_of(table_of(page, "benchmark"), "one", "parameters") == "5597604");
  CHECK(cell_of(table_of(page, "benchmark"), "one", "operations per sample") == "56.9 Gflop");
  CHECK(cell_of(table_of(page, "systems"), "one", "processor") == "A64FX");
  CHECK(cell_of(table_of(page, "systems"), "one", "nodes") == "2");
  CHECK(cell_of(table_of(page, "versions"), "one", "job") == "slurm 123");
  CHECK(table_of(page, "binding").rows.size() == 3);
  const Table& staging = table_of(page, "staging");
  CHECK(cell_of(staging, "one", "read rate") == "2 GB/s");
  CHECK(cell_of(staging, "one", "read rate inside calls per rank") == "1 GB/s");
  CHECK(contains(cell_of(staging, "one", "seconds of a rank: mean (least .. most)"),
                 "1.500 (1 .. 2)"));
  CHECK(contains(page.sections.back().paragraphs.at(0), "halomesh report one"));
  REQUIRE(page.warnings.size() == 1);
  CHECK(contains(page.warnings[0], "slow reference kernel of oneDNN in conv1"));
  CHECK(nlohmann::json::parse(page.raw_json)["runs"].at(0)["ranks"] == 4);
}

TEST_CASE("report: statistics and numbers as text") {
  const Statistics none = statistics_of({NAN});
  CHECK(none.count == 0);
  CHECK(std::isnan(none.mean));
  const Statistics some = statistics_of({4, 1, 3, NAN, 2});
  CHECK(some.count == 4);
  CHECK(some.mean == 2.5);
  CHECK(some.median == 2.5);
  CHECK(some.deviation == doctest::Approx(std::sqrt(5.0 / 3)));
  const std::pair<double, const char*> rows[] = {{0, "0"},           {1, "1"},
                                                 {12.345, "12.35"},  {-123.45, "-123.5"},
                                                 {12345.6, "12346"}, {0.012345, "0.0123"},
                                                 {1e-5, "1e-05"},    {NAN, "-"}};
  for (const auto& [value, text] : rows) CHECK(shown(value) == text);
  CHECK(with_prefix(1.5e9, "B") == "1.5 GB");
  CHECK(duration(90) == "90 s");
  CHECK(duration(600) == "10 min");
  CHECK(duration(36000) == "10 h");
  const auto cells = read_csv("a,\"b,\"\"c\nd\"\r\n\n1,\n");
  CHECK(cells == std::vector<std::vector<std::string>>{{"a", "b,\"c\nd"}, {"1", ""}});
}

}  // namespace halomesh
