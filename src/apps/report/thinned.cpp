// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/thinned.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace halomesh {

std::vector<std::size_t> thinned(const std::vector<Point>& points, std::size_t whole) {
  std::vector<std::size_t> kept;
  if (points.size() <= whole) {
    kept.resize(points.size());
    std::iota(kept.begin(), kept.end(), std::size_t{0});
    return kept;
  }
  const auto keep = [&](std::size_t i) {
    if (kept.empty() || kept.back() < i) kept.push_back(i);
  };
  const auto column = [&](std::size_t i) { return std::floor(points[i].x); };
  keep(0);
  for (std::size_t begin = 0, end = 0; begin < points.size(); begin = end) {
    std::size_t least = begin, greatest = begin;
    for (end = begin; end < points.size() && column(end) == column(begin); ++end) {
      const double y = points[end].y;
      if (std::isnan(points[least].y) || y < points[least].y) least = end;
      if (std::isnan(points[greatest].y) || y > points[greatest].y) greatest = end;
    }
    if (end == begin) ++end;  // x is NaN
    keep(std::min(least, greatest));
    keep(std::max(least, greatest));
  }
  keep(points.size() - 1);
  return kept;
}

}  // namespace halomesh
