// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/scale.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "joined.hpp"
#include "src/apps/report/figure_csv.hpp"
#include "src/apps/report/markup.hpp"
#include "src/apps/report/thinned.hpp"

namespace halomesh {
namespace {

std::string labels(const Range& range, int most) {
  std::vector<std::string> found;
  for (const Tick& tick : ticks_of(range, most)) {
    if (!tick.label.empty()) found.push_back(tick.label);
  }
  return joined(found, " ");
}

TEST_CASE("ticks are multiples of 1, 2 or 5 x 10^n, labelled alike") {
  CHECK(labels({0, 1, false}, 6) == "0 0.2 0.4 0.6 0.8 1.0");
  CHECK(labels({0, 0.003, false}, 7) == "0 0.0005 0.0010 0.0015 0.0020 0.0025 0.0030");
  CHECK(labels({-3, 12, false}, 5) == "0 5 10");
  CHECK(labels({-1, 1, false}, 5) == "-1.0 -0.5 0 0.5 1.0");
  CHECK(labels({0, 100000, false}, 6) == "0 20,000 40,000 60,000 80,000 100,000");
  CHECK(labels({0, 3e9, false}, 7) == "0 0.5×10⁹ 1.0×10⁹ 1.5×10⁹ 2.0×10⁹ 2.5×10⁹ 3.0×10⁹");
  CHECK(labels({1e-3, 1e5, true}, 9) == "0.001 0.01 0.1 1 10 100 1000 10,000 100,000");
  CHECK(labels({1e-3, 1e5, true}, 5) == "0.01 1 100 10,000");
  CHECK(labels({5, 50, true}, 8) == "5 10 20 50");
  CHECK(labels({1e-9, 1e-6, true}, 8) == "10⁻⁹ 10⁻⁸ 10⁻⁷ 10⁻⁶");
  CHECK(labels({100, 200, true}, 6) == "100 120 140 160 180 200");
  CHECK(ticks_of({1, 100, true}, 4).size() == 19);  // small ones between 1, 10 and 100
}

TEST_CASE("a single value gets room on both sides") {
  const Range five = widened({5, 5, false});
  CHECK(five.least == doctest::Approx(4.5));
  CHECK(five.most == doctest::Approx(5.5));
  CHECK(widened({0, 0, false}).most == 1);
  const Range hundred = rounded({100, 100, true}, 7);
  CHECK(hundred.least == 50);
  CHECK(hundred.most == 200);
  CHECK(labels(rounded({-2, -2, false}, 5), 5) == "-2.2 -2.1 -2.0 -1.9 -1.8");
}

TEST_CASE("a range is extended to whole ticks") {
  const Range linear = rounded({0.13, 0.52, false}, 6);
  CHECK(linear.least == doctest::Approx(0.1));
  CHECK(linear.most == doctest::Approx(0.6));
  const Range logarithmic = rounded({0.013, 730, true}, 6);
  CHECK(logarithmic.least == doctest::Approx(0.01));
  CHECK(logarithmic.most == 1000);
}

TEST_CASE("scales map ends to ends and, if logarithmic, ratios to lengths") {
  const Scale linear({0, 10, false}, 300, 100);
  CHECK(linear(0) == 300);
  CHECK(linear(2.5) == 250);
  CHECK(linear(10) == 100);
  const Scale logarithmic({0.01, 100, true}, 0, 400);
  CHECK(logarithmic(1) == doctest::Approx(200));
  CHECK(logarithmic(10) == doctest::Approx(300));
}

TEST_CASE("numbers for people have five digits at most") {
  CHECK(readable(0) == "0");
  CHECK(readable(1234567) == "1,234,567");
  CHECK(readable(-0.123456) == "-0.12346");
  CHECK(readable(12345.678) == "12,346");
  CHECK(readable(1.5e-7) == "1.5×10⁻⁷");
  CHECK(readable(2.5) == "2.5");
}

TEST_CASE("thinning keeps the least and the greatest of each pixel column, and both ends") {
  std::vector<Point> points;
  for (int i = 0; i < 4000; ++i) points.push_back({i / 10.0, 50});
  points[1234].y = -7;
  points[1235].y = 99;
  const std::vector<std::size_t> kept = thinned(points);
  CHECK(kept.size() < 900);
  CHECK(kept.front() == 0);
  CHECK(kept.back() == 3999);
  int extremes = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (i > 0) REQUIRE(kept[i - 1] < kept[i]);
    extremes += kept[i] == 1234 || kept[i] == 1235 ? 1 : 0;
  }
  CHECK(extremes == 2);
  CHECK(thinned(points, 4000).size() == 4000);
}

TEST_CASE("text becomes well-formed whatever it holds") {
  CHECK(escaped("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#39;");
  CHECK(escaped("\xC3\xA9 \xFF \x01") == "\xC3\xA9 \xEF\xBF\xBD \xEF\xBF\xBD");
  CHECK(escaped("\xE2\x82") == "\xEF\xBF\xBD\xEF\xBF\xBD");          // cut off
  CHECK(escaped("\xED\xA0\x80").find('\xED') == std::string::npos);  // half a surrogate pair
  CHECK(anchor("2 runs <x>") == "n2-runs--x-");
  CHECK(shortened("abcdef", 6) == "abcdef");
  CHECK(shortened("abcdefg", 6) == "abcde…");
  CHECK(px(12.04) == "12");
  CHECK(px(-0.04) == "0");
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

}  // namespace
}  // namespace halomesh
