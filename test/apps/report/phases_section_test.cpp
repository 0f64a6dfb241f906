// SPDX-License-Identifier: Apache-2.0
// Parts of a step, efficiency and bandwidths against numbers worked out by hand.
#include <doctest/doctest.h>

#include <string>

#include "joined.hpp"
#include "src/apps/report/run_phases.hpp"
#include "test/apps/report/report_scene.hpp"

namespace halomesh {
namespace {

/// A line of the event "phases" of 4 ranks in 2 replicas. `scale` stretches all times.
std::string phases_line(int steps, double scale) {
  const auto range = [&](double mean, double least, double most, int rank) {
    return fmt::format(R"("mean":{},"min":{},"max":{},"max_rank":{})", scale * mean, scale * least,
                       scale * most, rank);
  };
  return fmt::format(
             R"({{"event":"phases","epoch":0,"step":{0},"steps":{0},"ranks":4,"replicas":2,
"parts":"2x1x1","batch":4,"step_seconds":{{{1}}},
"rows":[{{"phase":"forward","layer":"conv1","kind":"compute",{2},"received_bytes":0}},
{{"phase":"halo wait","layer":"conv2","kind":"halo wait",{3},"received_bytes":2000}},
{{"phase":"loss","layer":"","kind":"compute","mean":1e-6,"min":0,"max":1e-6,"max_rank":0,"received_bytes":0}}],
"kinds":[{{"kind":"compute",{2}}},{{"kind":"halo wait",{3}}},{{"kind":"optimizer",{4}}},
{{"kind":"other",{5}}}],
"efficiency":{{"load_balance":0.9,"communication":0.8,"parallel":0.72}},
"limit":"waiting for halos takes 20.0 % of a step",
"halo":{{"sent_bytes":{6},"received_bytes":{6},"messages":{7}}},
"reduction":{{"bytes":{8},"buckets":{9},"seconds":{10},"exposed_seconds":{11}}},
"input":{{"bytes":{12},"calls":{9},"seconds":{13},"wait_seconds":{14}}},
"memory_bytes":{{"mean":1000000,"max":2000000,"max_rank":3}}}})",
             steps, range(0.1, 0.1, 0.1, 0), range(0.06, 0.05, 0.07, 3), range(0.02, 0.01, 0.03, 2),
             range(0.01, 0.01, 0.01, 1), range(0.01, 0.01, 0.01, 1), steps * 8000, steps * 6,
             // Two sums of 1 MB per step on each of 4 ranks, 0.5 ms each.
             steps * 8'000'000, steps * 2, 0.0005 * scale, 0.0002 * scale,
             // 4 GB per step in 2 s inside calls, 0.4 s waited: sums over the 4 ranks.
             steps * 4'000'000'000.0, steps * 2.0 * scale, steps * 0.4 * scale) +
         "\n";
}

std::string on_one_line(std::string text) {
  text.pop_back();
  text.erase(std::remove(text.begin(), text.end(), '\n'), text.end());
  return text + "\n";
}

std::filesystem::path put_run(const TempDirectory& directory, const std::string& name,
                              const std::string& phases) {
  const std::filesystem::path run = directory / name;
  std::filesystem::create_directory(run);
  put_contents(run / "run.json",
               run_json(2, "2x1x1", 4, 4,
                        R"(,"work":[{"phase":"forward","layer":"conv1","flops":1e9,)"
                        R"("memory_bytes":6e9},{"phase":"optimizer","layer":"","flops":0,)"
                        R"("memory_bytes":2e9}])"));
  put_contents(run / "metrics.jsonl",
               step_line(1, 0, 0.5, 0.1) + step_line(2, 0, 0.4, 0.1) + phases);
  return run;
}

}  // namespace

TEST_CASE("report: lines of phases are put together by their steps") {
  const TempDirectory directory;
  // 10 steps of 100 ms and 30 of 200 ms: 175 ms.
  const auto run =
      put_run(directory, "one", on_one_line(phases_line(10, 1)) + on_one_line(phases_line(30, 2)));
  const ReportInput input = input_of({run});
  const auto phases = phases_of(*input.runs.at(0).files);
  REQUIRE(phases);
  CHECK(phases->steps == 40);
  CHECK(phases->step.mean == doctest::Approx(0.175));
  CHECK(phases->of(PhaseKind::kCompute).mean == doctest::Approx(0.06 * 1.75));
  CHECK(phases->of(PhaseKind::kCompute).least == doctest::Approx(0.05 * 1.75));
  CHECK(phases->of(PhaseKind::kCompute).slowest_rank == 3);
  CHECK(phases->useful() == doctest::Approx(0.07 * 1.75));
  CHECK(phases->parallel == doctest::Approx(0.72));
  CHECK(phases->halo_sent == doctest::Approx(40 * 8000));
  CHECK(phases->buckets == 80);
  CHECK(phases->bucket_seconds == doctest::Approx(0.0005 * 1.75));
  CHECK(phases->exposed_seconds == doctest::Approx(0.0002 * 1.75));
  REQUIRE(phases->rows.size() == 3);
  CHECK(phases->rows[1].received_bytes == doctest::Approx(2000));
}

TEST_CASE("report: the parts of a step, the slowest rank, and efficiency") {
  const TempDirectory directory;
  const auto fast = put_run(directory, "fast", on_one_line(phases_line(10, 1)));
  const auto slow = put_run(directory, "slow", on_one_line(phases_line(10, 2)));
  const Page page = make_page(input_of({fast, slow}));

  const Figure& shares = figure_of(page, "step-shares");
  CHECK(shares.categories == std::vector<std::string>{"fast: 2 x 2x1x1", "slow: 2 x 2x1x1"});
  const std::pair<const char*, double> kinds[] = {
      {"compute", 60}, {"halo wait", 20}, {"optimizer", 10}, {"other", 10}, {"packing", 0}};
  for (const auto& row : kinds) {
    const auto& [kind, share] = row;
    CAPTURE(row.first);
    CHECK(series_of(shares, kind).data.at(0).y == doctest::Approx(share));
    CHECK(series_of(shares, kind).data.at(1).y == doctest::Approx(share));
  }
  const Datum& wait = series_of(figure_of(page, "waiting-ranks"), "halo wait").data.at(0);
  CHECK(wait.x == 4);
  CHECK(wait.low.value() == doctest::Approx(10));
  CHECK(wait.high.value() == doctest::Approx(30));

  const Table& layers = table_of(page, "step-layers-1");
  REQUIRE(layers.rows.size() == 2);  // the loss is too small
  CHECK(layers.rows[0] == std::vector<std::string>{"conv1", "forward", "60.000", "50.000", "70.000",
                                                   "3 (replica 1, part 1)", "60.0 %", "-"});
  CHECK(layers.rows[1].at(5) == "2 (replica 1, part 0)");
  CHECK(layers.rows[1].at(7) == "2.0");
  CHECK(layers.notes.size() == 1);

  const Table& efficiency = table_of(page, "efficiency");
  CHECK(cell_of(efficiency, "fast", "load balance") == "90.0 %");
  CHECK(cell_of(efficiency, "slow", "parallel efficiency") == "72.0 %");
  // Twice the useful time for the same samples.
  CHECK(cell_of(efficiency, "slow", "computation scaling") == "50.0 %");
  CHECK(cell_of(efficiency, "slow", "global efficiency") == "36.0 %");
  CHECK(
      contains(joined(page.verdict, " "), "what limits: waiting for halos takes 20.0 % of a step"));
}

TEST_CASE("report: bandwidths of memory, sums and input") {
  const TempDirectory directory;
  const Page page =
      make_page(input_of({put_run(directory, "one", on_one_line(phases_line(10, 1)))}));
  const Table& memory = table_of(page, "memory-bandwidth");  // 8 GB in 100 ms
  CHECK(cell_of(memory, "one", "GB/s in total") == "80");
  CHECK(cell_of(memory, "one", "GB/s per rank") == "20");
  CHECK(cell_of(memory, "one", "GB/s per node") == "40");
  CHECK(cell_of(memory, "one", "tool") == "least (model)");
  const Table& sums = table_of(page, "reduction-bandwidth");  // 1 MB in 0.5 ms, 4 ranks
  CHECK(cell_of(sums, "one", "size in MB") == "1");
  CHECK(cell_of(sums, "one", "algorithm GB/s") == "2");
  CHECK(cell_of(sums, "one", "bus GB/s") == "3");
  CHECK(cell_of(sums, "one", "sums per step") == "2");
  CHECK(cell_of(sums, "one", "waited per step in ms") == "0.200");
  const Table& reading = table_of(page, "input-bandwidth");
  CHECK(cell_of(reading, "one", "GB/s per rank") == "2");
  CHECK(cell_of(reading, "one", "in calls per step in ms") == "500.000");
  CHECK(cell_of(reading, "one", "waited per step in ms") == "100.000");
  const Table& traffic = table_of(page, "traffic");
  CHECK(cell_of(traffic, "one", "halos sent per step") == "8 kB");
  CHECK(cell_of(traffic, "one", "halo messages per step") == "6");
  CHECK(cell_of(traffic, "one", "rank with most") == "3 (replica 1, part 1)");
}

}  // namespace halomesh
