// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/svg_figure.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "error.hpp"
#include "src/apps/report/plot.hpp"
#include "test/apps/report/sample_page.hpp"
#include "test/apps/report/xml_check.hpp"

namespace halomesh {
namespace {

/// The values of `attribute` of all elements with class `name`, in order.
std::vector<double> values(const std::string& svg, const std::string& name,
                           const std::string& attribute) {
  std::vector<double> found;
  const std::string opening = "class=\"" + name + "\"";
  for (std::size_t at = svg.find(opening); at != std::string::npos;
       at = svg.find(opening, at + 1)) {
    const std::string element = svg.substr(at, svg.find('>', at) - at);
    const std::size_t value = element.find(" " + attribute + "=\"");
    REQUIRE(value != std::string::npos);
    found.push_back(std::stod(element.substr(value + attribute.size() + 3)));
  }
  return found;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

Figure two_bars(bool stacked, bool horizontal) {
  Figure figure{.id = "bars", .stacked = stacked, .horizontal = horizontal};
  figure.categories = {"a", "b"};
  figure.series = {{.name = "s", .mark = Mark::kBars, .data = {{0, 10}, {1, 20}}},
                   {.name = "t", .mark = Mark::kBars, .data = {{0, 30}, {1, 40}}}};
  return figure;
}

TEST_CASE("grouped bars stand side by side on zero") {
  const Figure figure = two_bars(false, false);
  const Plot plot = plot_of(figure, 0);
  const std::string svg = draw_inline_svg(figure, "bars");
  // The axis runs from 0 to 40 over 300 pixels.
  const std::vector<double> heights = values(svg, "bar", "height"), x = values(svg, "bar", "x"),
                            y = values(svg, "bar", "y");
  CHECK(heights == std::vector<double>{75, 150, 225, 300});
  REQUIRE(x.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(y[i] + heights[i] == doctest::Approx(plot.bottom));
  CHECK(x[2] - x[0] == doctest::Approx(56));  // the second series, beside the first
}

TEST_CASE("stacked bars begin where the one below ends") {
  const std::string svg = draw_inline_svg(two_bars(true, false), "bars");
  // 0 to 60 over 300 pixels; the top of category b is at 60.
  CHECK(values(svg, "bar", "height") == std::vector<double>{50, 100, 150, 200});
  CHECK(values(svg, "bar", "y") == std::vector<double>{260, 210, 110, 10});
}

TEST_CASE("horizontal bars lie, categories downwards") {
  const Figure figure = two_bars(false, true);
  const Plot plot = plot_of(figure, 0);
  const std::string svg = draw_inline_svg(figure, "bars");
  const std::vector<double> x = values(svg, "bar", "x"), y = values(svg, "bar", "y"),
                            width = values(svg, "bar", "width");
  REQUIRE(x.size() == 4);
  for (const double begin : x) CHECK(std::abs(begin - plot.left) <= 0.05);         // written to 0.1
  CHECK(width[3] == doctest::Approx(plot.right_edge - plot.left).epsilon(0.001));  // 40 of 40
  CHECK(width[0] == doctest::Approx(width[3] / 4).epsilon(0.001));
  CHECK(y[0] < y[1]);
}

TEST_CASE("lines have gaps, and a point alone is drawn") {
  Figure figure{.id = "line"};
  figure.series = {
      {.name = "s", .data = {{0, 0}, {1, 1}, {2, std::nan("")}, {3, 1}, {4, std::nan("")}}}};
  const std::string svg = draw_inline_svg(figure, "line");
  const std::size_t begin = svg.find("class=\"line\" d=\"") + 16;
  const std::string path = svg.substr(begin, svg.find('"', begin) - begin);
  CHECK(count(path, "M") == 2);
  CHECK(count(path, "L") == 1);
  CHECK(path.substr(path.size() - 2) == "h0");
  CHECK(count(svg, "class=\"hit\"") == 3);
}

TEST_CASE(
    "points lie where the logarithmic axes say; what is not positive is dropped and counted") {
  Figure figure{.id = "points"};
  figure.x = {"x", true};
  figure.y = {"y", true};
  figure.series = {{.name = "s",
                    .mark = Mark::kPoints,
                    .data = {{1, 1}, {10, 10}, {100, 100}, {0, 5}, {5, -1}}}};
  const std::string svg = draw_inline_svg(figure, "points");
  const std::vector<double> x = values(svg, "dot", "x"), y = values(svg, "dot", "y");
  REQUIRE(x.size() == 3);
  CHECK(x[1] - x[0] == doctest::Approx(x[2] - x[1]).epsilon(0.001));
  CHECK(y == std::vector<double>{310, 160, 10});  // 300 pixels for two decades
  CHECK(svg.find("not shown: 2 values that are not positive") != std::string::npos);
}

TEST_CASE("spans of a timeline lie in their rows") {
  Figure figure{.id = "rows"};
  figure.categories = {"rank 0", "rank 1"};
  figure.series = {{.name = "compute"}, {.name = "wait"}};
  figure.spans = {{0, 0, 0, 5, ""}, {1, 1, 5, 10, "conv1"}, {7, 0, 0, 1, "no such row"}};
  const Plot plot = plot_of(figure, 0);
  const std::string svg = draw_inline_svg(figure, "rows");
  const std::vector<double> x = values(svg, "span", "x"), y = values(svg, "span", "y"),
                            width = values(svg, "span", "width");
  REQUIRE(x.size() == 2);
  CHECK(x[0] == doctest::Approx(plot.left).epsilon(0.001));
  CHECK(x[1] == doctest::Approx((plot.left + plot.right_edge) / 2).epsilon(0.001));
  CHECK(width[0] == doctest::Approx(width[1]));
  CHECK(y[1] - y[0] == doctest::Approx(24));
  CHECK(svg.find("rank 1\nwait: conv1\n5 to 10") != std::string::npos);
}

TEST_CASE("whiskers, level lines and second scales are drawn") {
  const std::string svg = draw_inline_svg(test::scaling_figure(), "s");
  CHECK(count(svg, "class=\"whisker\"") == 1);
  CHECK(count(svg, "class=\"level\"") == 6);
  CHECK(count(svg, "class=\"level-label") == 6);
  CHECK(svg.find(">number of threads<") != std::string::npos);
  CHECK(svg.find("class=\"series grey\"") != std::string::npos);
  Figure wrong = test::scaling_figure();
  wrong.top->factor = 0;
  CHECK_THROWS_AS(draw_svg(wrong), UsageError);
}

TEST_CASE("a long series is drawn with a few points per pixel column") {
  const std::string svg = draw_svg(test::loss_figure(100000));
  CHECK(svg.size() > 10000);
  CHECK(svg.size() < 80000);
  CHECK(svg == draw_svg(test::loss_figure(100000)));
}

TEST_CASE("every figure is a well-formed document with a title and a description, even if empty") {
  int documents = 0;
  Page page = test::sample_page(2000);
  page.sections.push_back({"empty", "", {}, {Figure{}, Figure{.id = "log", .y = {"y", true}}}, {}});
  for (const Section& section : page.sections) {
    for (const Figure& figure : section.figures) {
      const std::string svg = draw_svg(figure);
      CHECK(test::xml_fault(svg) == "");
      CHECK(count(svg, "<desc id=") == 1);
      CHECK(count(svg, "<title id=") == 1);
      CHECK(svg.find("nan") == std::string::npos);
      ++documents;
    }
  }
  CHECK(documents == 10);
}

bool contains(const std::string& text, const std::string& part) { return count(text, part) > 0; }

TEST_CASE("negative bars are stacked downwards") {
  Figure figure;
  figure.id = "bars";
  figure.categories = {"p"};
  figure.stacked = true;
  figure.series = {{.name = "s", .mark = Mark::kBars, .data = {{0, -10}}},
                   {.name = "t", .mark = Mark::kBars, .data = {{0, 10}}},
                   {.name = "u", .mark = Mark::kBars, .data = {{0, -10}}}};
  // y from -20 at pixel 310 to 10 at pixel 10.
  const std::string svg = draw_inline_svg(figure, "bars");
  CHECK(contains(svg, "y=\"110\" width=\"56\" height=\"100\"><title>s"));
  CHECK(contains(svg, "y=\"10\" width=\"56\" height=\"100\"><title>t"));
  CHECK(contains(svg, "y=\"210\" width=\"56\" height=\"100\"><title>u"));
}

TEST_CASE("a second scale has its own round ticks") {
  Figure figure;
  figure.id = "second";
  figure.series = {{.name = "s", .data = {{0, 0}, {10, 10}}}};
  figure.right = SecondScale{"twice", 2};
  const std::string svg = draw_inline_svg(figure, "second");
  // 20 stands beside 10, at the upper end of the plot.
  CHECK(contains(svg, "y=\"14.5\">20</text>"));
  CHECK(contains(svg, ">twice</text>"));
  figure.right->factor = 0;
  CHECK_THROWS_AS(draw_inline_svg(figure, "second"), UsageError);
}

TEST_CASE("labels of categories are slanted when they would touch") {
  CHECK(!contains(draw_inline_svg(test::columns_figure(), "a"), "rotate(-40)"));
  CHECK(count(draw_inline_svg(test::breakdown_figure(), "a"), "rotate(-40)") == 14);
  Figure many = test::breakdown_figure();
  for (int i = 0; i < 200; ++i) many.categories.push_back("more");
  const std::size_t labels = count(draw_inline_svg(many, "a"), "rotate(-40)");
  CHECK(labels > 10);
  CHECK(labels < 40);
}

TEST_CASE("published series are grey, others have colours and shapes of their own") {
  const std::string svg = draw_inline_svg(test::scaling_figure(), "a");
  CHECK(contains(svg, "<g class=\"series c0\" data-series=\"0\">"));
  CHECK(contains(svg, "<g class=\"series c1\" data-series=\"1\">"));
  CHECK(contains(svg, "<g class=\"series grey\" data-series=\"2\">"));
  CHECK(contains(svg, "class=\"line dashed\""));
}

TEST_CASE("a figure without data has axes alone") {
  for (Figure figure : {Figure{}, two_bars(false, false)}) {
    figure.id = "empty";
    figure.series.clear();
    const std::string svg = draw_svg(figure);
    CHECK(test::xml_fault(svg) == "");
    CHECK(contains(svg, "class=\"grid\""));
  }
}

TEST_CASE("whiskers reach from low to high, those of stacked bars above the bars below") {
  Figure figure = two_bars(false, false);
  figure.series[1].data[0] = {0, 30, 20, 35, ""};
  // 0 to 40 over 300 pixels, 10 the uppermost.
  CHECK(contains(draw_inline_svg(figure, "a"), "160h8m-4 0V47.5m-4 0h8\"/>"));
  figure.stacked = true;
  figure.series[1].data[1].y = 20;
  // 0 to 50: the whisker begins at 10 + 20 and ends at 10 + 35.
  CHECK(contains(draw_inline_svg(figure, "a"), "130h8m-4 0V40m-4 0h8\"/>"));
}

TEST_CASE("level lines cross the plot and are labelled; points carry their values") {
  Figure figure{.id = "log"};
  figure.x = {"x", true};
  figure.y = {"y", true};
  figure.series = {{.name = "s", .mark = Mark::kPoints, .data = {{1, 1}, {10, 10, {}, {}, "b"}}}};
  figure.levels = {{"one", 1, 1}, {"beyond", 1e6, 1}};
  const std::string svg = draw_inline_svg(figure, "log");
  CHECK(contains(svg, "<path class=\"level\" d=\"M78.4 310L639.5 10\"/>"));
  CHECK(count(svg, "class=\"level\"") == 1);
  CHECK(contains(svg, ">one</text>"));
  CHECK(contains(svg, "x=\"639.6\" y=\"10\"><title>s\nx: 10\ny: 10\nb</title></use>"));
}

}  // namespace
}  // namespace halomesh
