// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/figure_csv.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "joined.hpp"

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

TEST_CASE("the table of a figure has a column for each series and is thinned") {
  Figure figure{.id = "f", .title = "t"};
  figure.x.label = "step";
  figure.series = {{.name = "a"}, {.name = "b"}};
  for (int i = 0; i < 1000; ++i) {
    figure.series[0].data.push_back({i + 1.0, 2.0 * i});
    figure.series[1].data.push_back({i + 1.0, 3.0 * i, 1.0, 2.0, ""});
  }
  const Table table = figure_table(figure, 200);
  CHECK(joined(table.columns, "|") == "step|a|b");
  CHECK(table.rows.size() == 200);
  CHECK(joined(table.rows.at(1), "|") == "6|10|15 (1 to 2)");
  CHECK(table.notes.size() == 1);
  figure.series[1].data.pop_back();
  CHECK(joined(figure_table(figure, 200).columns, "|") == "series|step|y");
  CHECK(figure_table(figure, 200).rows.size() == 200);
  figure.series.clear();
  CHECK(figure_table(figure, 200).rows.empty());
}

TEST_CASE("CSV is exact and quoted") {
  Figure figure{.id = "f"};
  figure.x.label = "step";
  figure.y.label = "loss, relative";
  figure.series = {{.name = "a \"b\"", .data = {{1, 0.1}, {2, 1e-300, 0.0, 3.5, "x\ny"}}}};
  CHECK(figure_csv(figure) ==
        "series,step,\"loss, relative\",low,high,label\r\n"
        "\"a \"\"b\"\"\",1,0.1,,,\r\n"
        "\"a \"\"b\"\"\",2,1e-300,0,3.5,\"x\ny\"\r\n");
  figure.categories = {"p", "q", "r"};
  CHECK(figure_csv(figure).find("\",q,0.1,") != std::string::npos);
  figure.spans = {{2, 0, 0.5, 1.25, "conv1"}};
  CHECK(figure_csv(figure) == "row,series,begin,end,label\r\nr,\"a \"\"b\"\"\",0.5,1.25,conv1\r\n");
}

}  // namespace
}  // namespace halomesh
