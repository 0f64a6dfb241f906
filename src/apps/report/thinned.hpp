// SPDX-License-Identifier: Apache-2.0
// Which points of a long series are drawn.
#pragma once

#include <cstddef>
#include <vector>

namespace halomesh {

/// On the page, in pixels. NaN in y: a gap.
struct Point {
  double x = 0, y = 0;
};

/// The indices, in ascending order, of the points that show the same as all of them: of each run of
/// points in one pixel column the least and the greatest y, and of the whole series the first and
/// the last point. All indices if there are no more than `whole` points.
std::vector<std::size_t> thinned(const std::vector<Point>& points, std::size_t whole = 1500);

}  // namespace halomesh
