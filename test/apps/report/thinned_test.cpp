// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/thinned.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

namespace halomesh {
namespace {

TEST_CASE("a short series is kept whole") {
  CHECK(thinned({{0, 1}, {0.1, 2}, {0.2, 3}}, 3) == std::vector<std::size_t>{0, 1, 2});
  CHECK(thinned({}, 3).empty());
}

TEST_CASE("a long series keeps the extremes of each pixel column, its begin and its end") {
  const std::vector<Point> points = {{0, 5},   {0.2, 9}, {0.4, 6}, {0.6, 1}, {0.8, 4},
                                     {1.0, 3}, {1.5, 3}, {2.0, 2}, {2.5, 7}, {2.9, 4}};
  CHECK(thinned(points, 4) == std::vector<std::size_t>{0, 1, 3, 5, 7, 8, 9});
}

TEST_CASE("a spike among 100,000 points is kept") {
  std::vector<Point> points;
  for (int i = 0; i < 100000; ++i) points.push_back({i * 0.006, i == 54321 ? 100.0 : i % 2 + 0.0});
  const std::vector<std::size_t> kept = thinned(points);
  CHECK(kept.size() < 1300);
  CHECK(kept.size() > 600);
  std::size_t spikes = 0;
  for (const std::size_t i : kept) spikes += i == 54321 ? 1 : 0;
  CHECK(spikes == 1);
}

TEST_CASE("a gap within a column hides no extreme") {
  const double gap = std::nan("");
  CHECK(thinned({{0, gap}, {0.1, 8}, {0.2, gap}, {0.3, 2}, {0.4, 5}}, 2) ==
        std::vector<std::size_t>{0, 1, 3, 4});
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

}  // namespace
}  // namespace halomesh
