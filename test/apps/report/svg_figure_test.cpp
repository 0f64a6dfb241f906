// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/svg_figure.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "error.hpp"
#include "test/apps/report/sample_page.hpp"
#include "test/apps/report/well_formed.hpp"

namespace halomesh {
namespace {

using test::count_of;

bool contains(const std::string& text, const std::string& part) { return count_of(text, part) > 0; }

/// Two categories and two series: 10 and 5 (from 4 to 7), 10 and 15.
Figure bars() {
  Figure figure;
  figure.id = "bars";
  figure.y.label = "y";
  figure.categories = {"p", "q"};
  figure.series = {{.name = "s", .mark = Mark::kBars, .data = {{0, 10}, {1, 5, 4, 7, ""}}},
                   {.name = "t", .mark = Mark::kBars, .data = {{0, 10}, {1, 15}}}};
  return figure;
}

TEST_CASE("bars of a category stand side by side on the zero line") {
  // y from 0 at pixel 310 to 15 at pixel 10.
  const std::string svg = draw_inline_svg(bars(), "bars");
  CHECK(contains(svg, "data-down=\"310 10 0 15 0\""));
  CHECK(count_of(svg, "class=\"bar\"") == 4);
  CHECK(contains(svg, "x=\"151.4\" y=\"110\" width=\"56\" height=\"200\"><title>s\np\ny: 10<"));
  CHECK(contains(svg, "x=\"207.4\" y=\"110\" width=\"56\" height=\"200\"><title>t\np\ny: 10<"));
  CHECK(contains(svg, "x=\"510.5\" y=\"10\" width=\"56\" height=\"300\"><title>t\nq\ny: 15<"));
  CHECK(contains(svg, "y: 5 (4 to 7)"));
  CHECK(contains(svg, "<path class=\"whisker\" d=\"M478.5 230h8m-4 0V170m-4 0h8\"/>"));
}

TEST_CASE("stacked bars begin where the one before ends") {
  Figure figure = bars();
  figure.stacked = true;
  // y from 0 at pixel 310 to 20 at pixel 10: 15 pixels for 1.
  const std::string svg = draw_inline_svg(figure, "bars");
  CHECK(count_of(svg, "class=\"bar\"") == 4);
  CHECK(contains(svg, "x=\"179.4\" y=\"160\" width=\"56\" height=\"150\""));
  CHECK(contains(svg, "x=\"179.4\" y=\"10\" width=\"56\" height=\"150\""));
  CHECK(contains(svg, "x=\"482.5\" y=\"235\" width=\"56\" height=\"75\""));
  CHECK(contains(svg, "x=\"482.5\" y=\"10\" width=\"56\" height=\"225\""));
}

TEST_CASE("lying bars grow to the right, the first category on top") {
  Figure figure = bars();
  figure.stacked = figure.horizontal = true;
  const std::string svg = draw_inline_svg(figure, "bars");
  CHECK(contains(svg, "data-across=\"25.9 662 0 20 0\""));
  CHECK(contains(svg, "x=\"25.9\" y=\"12.4\" width=\"318\" height=\"19.2\"><title>s\np\n"));
  CHECK(contains(svg, "x=\"344\" y=\"12.4\" width=\"318\" height=\"19.2\"><title>t\np\n"));
  CHECK(contains(svg, "x=\"25.9\" y=\"36.4\" width=\"159\" height=\"19.2\"><title>s\nq\n"));
}

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

TEST_CASE("points on logarithmic axes, a level line through them, and a value left out") {
  Figure figure;
  figure.id = "log";
  figure.x = {"x", true};
  figure.y = {"y", true};
  figure.series = {{.name = "s", .mark = Mark::kPoints, .data = {{1, 1}, {10, 10}, {100, 0}}}};
  figure.levels = {{"one", 1, 1}};
  const std::string svg = draw_inline_svg(figure, "log");
  CHECK(count_of(svg, "<use ") == 2);
  CHECK(contains(svg, "x=\"78.3\" y=\"310\""));
  CHECK(contains(svg, "x=\"639.6\" y=\"10\""));
  CHECK(contains(svg, "<path class=\"level\" d=\"M78.4 310L639.5 10\"/>"));
  CHECK(contains(svg, ">one</text>"));
  CHECK(contains(svg, "not shown: 1 value that is not positive"));
}

TEST_CASE("a line has a gap where a value is missing; long ones are thinned") {
  Figure figure;
  figure.id = "line";
  figure.series = {{.name = "s", .data = {{0, 0}, {1, 1}, {2, std::nan("")}, {3, 1}, {4, 0}}}};
  const std::string svg = draw_inline_svg(figure, "line");
  const std::size_t begin = svg.find("d=\"", svg.find("<path class=\"line\"")) + 3;
  const std::string path = svg.substr(begin, svg.find('"', begin) - begin);
  CHECK(count_of(path, "M") == 2);
  CHECK(count_of(path, "L") == 2);
  CHECK(count_of(svg, "class=\"hit\"") == 4);  // where the values are shown
  CHECK(draw_svg(test::loss_figure(100000)).size() < 120000);
}

TEST_CASE("spans of a timeline lie in their rows, coloured by series") {
  Figure figure;
  figure.id = "time";
  figure.categories = {"r0", "r1"};
  figure.series = {{.name = "compute"}, {.name = "wait"}};
  figure.spans = {{0, 0, 0, 5, "conv1"}, {0, 1, 5, 10, ""}, {1, 0, 0, 10, ""}};
  // 0 at pixel 30.9, 10 at 662; rows of 24 pixels.
  const std::string svg = draw_inline_svg(figure, "time");
  CHECK(count_of(svg, "class=\"span\"") == 3);
  CHECK(contains(svg,
                 "fill=\"currentColor\" x=\"30.9\" y=\"12.9\" width=\"315.6\" height=\"18.2\">"
                 "<title>r0\ncompute: conv1\n0 to 5<"));
  CHECK(contains(svg, "fill=\"url(#time-h1)\" x=\"346.4\" y=\"12.9\" width=\"315.6\""));
  CHECK(contains(svg, "x=\"30.9\" y=\"36.9\" width=\"631.1\""));
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
  CHECK(count_of(draw_inline_svg(test::breakdown_figure(), "a"), "rotate(-40)") == 14);
  Figure many = test::breakdown_figure();
  for (int i = 0; i < 200; ++i) many.categories.push_back("more");
  const std::size_t labels = count_of(draw_inline_svg(many, "a"), "rotate(-40)");
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

TEST_CASE("every figure is a well-formed document with a title and a description") {
  std::size_t figures = 0, elements = 0;
  for (const Section& section : test::sample_page(1000).sections) {
    for (const Figure& figure : section.figures) {
      CAPTURE(figure.id);
      const std::string svg = draw_svg(figure);
      test::XmlReader reader(svg);
      CHECK(reader.fault() == "");
      CHECK(contains(svg, "<title id=\"" + figure.id + "-title\">"));
      CHECK(contains(svg, "<desc id=\"" + figure.id + "-desc\">"));
      CHECK(!contains(svg, "nan"));
      CHECK(!contains(svg, "inf\""));
      CHECK(svg == draw_svg(figure));
      ++figures;
      elements += reader.elements();
    }
  }
  CHECK(figures == 8);
  CHECK(elements > 1000);
}

TEST_CASE("a figure without data has axes alone") {
  for (Figure figure : {Figure{}, bars()}) {
    figure.id = "empty";
    figure.series.clear();
    const std::string svg = draw_svg(figure);
    CHECK(test::XmlReader(svg).fault() == "");
    CHECK(contains(svg, "class=\"grid\""));
  }
}

}  // namespace
}  // namespace halomesh
