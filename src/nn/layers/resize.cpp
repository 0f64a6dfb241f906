// SPDX-License-Identifier: Apache-2.0
// Interpolation on a grid of other extents: see resize.hpp.
#include "src/nn/layers/resize.hpp"

#include <algorithm>
#include <cmath>

namespace halomesh {

Resize::Resize(const ResizeOptions& options)
    : Separable("resize", options.type), options_(options) {
  for (std::size_t a = 0; a < 3; ++a)
    require(options.extents[a] >= 0 && std::isfinite(options.scales[a]) && options.scales[a] >= 0 &&
                (options.extents[a] > 0 || options.scales[a] > 0),
            text("resize to extent {} by scale {:g} along axis {}", options.extents[a],
                 options.scales[a], a),
            "give each axis a positive extent, a positive scale, or both");
}

std::string Resize::kernel_name() const {
  return fmt::format("{} resize {}", options_.mode == ResizeMode::kLinear ? "linear" : "nearest",
                     name_of(type()));
}

std::int64_t Resize::extent(std::int64_t n, std::size_t axis) const {
  if (options_.extents[axis] > 0) return options_.extents[axis];
  return static_cast<std::int64_t>(std::floor(static_cast<double>(n) * options_.scales[axis]));
}

Spatial Resize::extents_of(const Spatial& src) const {
  Spatial dst{};
  for (std::size_t a = 0; a < 3; ++a) {
    dst[a] = extent(src[a], a);
    require(dst[a] > 0, text("resize of {} planes by {:g}", src[a], options_.scales[a]),
            "use a larger input or a larger scale");
  }
  return dst;
}

double Resize::coordinate(std::int64_t n, std::size_t axis, std::int64_t dst) const {
  const std::int64_t m = extent(n, axis);
  const auto o = static_cast<double>(dst);
  // The scale as it is given, which is not m / n where m was rounded.
  const double scale = options_.scales[axis] > 0 ? options_.scales[axis]
                                                 : static_cast<double>(m) / static_cast<double>(n);
  switch (options_.coordinates) {
    case ResizeCoordinates::kPytorchHalfPixel:
      if (m == 1) return 0;
      [[fallthrough]];
    case ResizeCoordinates::kHalfPixel:
      return (o + 0.5) / scale - 0.5;
    case ResizeCoordinates::kAlignCorners:
      return m == 1 ? 0 : o * static_cast<double>(n - 1) / static_cast<double>(m - 1);
    case ResizeCoordinates::kAsymmetric:
      break;
  }
  return o / scale;
}

void Resize::append_row(const Spatial& src, std::size_t axis, std::int64_t dst,
                        std::vector<Term>& row) const {
  const std::int64_t last = src[axis] - 1;
  const double x = coordinate(src[axis], axis, dst), below = std::floor(x);
  const auto inside = [&](double plane) {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(plane), 0, last);
  };
  if (options_.mode == ResizeMode::kLinear) {
    const std::int64_t first = inside(below), second = inside(below + 1);
    if (first == second || x == below) return row.push_back({first, 1});
    row.push_back({first, below + 1 - x});
    return row.push_back({second, x - below});
  }
  const bool up = options_.rounding == ResizeRounding::kCeil          ? x > below
                  : options_.rounding == ResizeRounding::kPreferCeil  ? x - below >= 0.5
                  : options_.rounding == ResizeRounding::kPreferFloor ? x - below > 0.5
                                                                      : false;
  row.push_back({inside(below + (up ? 1 : 0)), 1});
}

}  // namespace halomesh
