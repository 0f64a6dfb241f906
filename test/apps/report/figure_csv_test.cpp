// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/figure_csv.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

namespace halomesh {
namespace {

using Row = std::vector<std::string>;

Figure two_series() {
  Figure figure;
  figure.x.label = "step";
  figure.y.label = "loss, \"mean\"";
  figure.series = {{.name = "run a", .data = {{1, 0.1, 0.05, 0.2, "first"}, {2, std::nan("")}}},
                   {.name = "b,\nc", .data = {{1, 1e-17}}}};
  return figure;
}

TEST_CASE("the CSV of a figure holds every number exactly") {
  CHECK(figure_csv(two_series()) ==
        "series,step,\"loss, \"\"mean\"\"\",low,high,label\r\n"
        "run a,1,0.1,0.05,0.2,first\r\n"
        "run a,2,,,,\r\n"
        "\"b,\nc\",1,1e-17,,,\r\n");
}

TEST_CASE("the CSV of bars names their categories, that of a timeline its rows") {
  Figure bars;
  bars.categories = {"conv1", "conv2"};
  bars.series = {{.name = "forward", .mark = Mark::kBars, .data = {{0, 3}, {1, 2.5}}}};
  CHECK(figure_csv(bars) ==
        "series,category,y,low,high,label\r\nforward,conv1,3,,,\r\nforward,conv2,2.5,,,\r\n");
  Figure timeline;
  timeline.categories = {"rank 0", "rank 1"};
  timeline.series = {{.name = "compute"}};
  timeline.spans = {{1, 0, 0.5, 2, "conv1"}};
  CHECK(figure_csv(timeline) == "row,series,begin,end,label\r\nrank 1,compute,0.5,2,conv1\r\n");
}

TEST_CASE("the table of series with the same x has a column for each") {
  Figure figure;
  figure.x.label = "epoch";
  figure.series = {{.name = "a", .data = {{1, 0.5}, {2, 0.25, 0.2, 0.3, ""}}},
                   {.name = "b", .data = {{1, 4}, {2, 3, {}, {}, "best"}}}};
  const Table table = figure_table(figure, 200);
  CHECK(table.columns == Row{"epoch", "a", "b"});
  CHECK(table.rows == std::vector<Row>{{"1", "0.5", "4"}, {"2", "0.25 (0.2 to 0.3)", "3, best"}});
  CHECK(table.notes.empty());
}

TEST_CASE("the table of series with different x has a row for each datum") {
  const Table table = figure_table(two_series(), 200);
  CHECK(table.columns.front() == "series");
  REQUIRE(table.rows.size() == 3);
  CHECK(table.rows[2] == Row{"b,\nc", "1", "1×10⁻¹⁷"});
}

TEST_CASE("the table of a long series is thinned and says so") {
  Figure figure;
  figure.series = {{.name = "a"}};
  for (int i = 0; i < 100000; ++i) figure.series[0].data.push_back({i + 0.0, 1});
  const Table table = figure_table(figure, 200);
  CHECK(table.rows.size() == 200);
  REQUIRE(table.notes.size() == 1);
  CHECK(table.notes[0] ==
        "200 of 100,000 rows, evenly spaced; --figures DIR writes all of them as CSV.");
}

}  // namespace
}  // namespace halomesh
