// SPDX-License-Identifier: Apache-2.0
// Half-open 4-D blocks of a tensor in global coordinates (channels, d, h, w).
// A value type with intersection, hull and containment.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <ostream>
#include <string>

#include "shape.hpp"

namespace halomesh {

/// The axes of a Box, in its storage order.
enum Axis : std::size_t { kC = 0, kD = 1, kH = 2, kW = 3 };

/// Half-open block [lo, hi) in global coordinates. Every box with an empty axis equals Box{}.
struct Box {
  std::array<std::int64_t, 4> lo{}, hi{};

  /// The whole tensor of this shape.
  static Box whole(const Shape& s) { return Box{{0, 0, 0, 0}, {s.c, s.d, s.h, s.w}}.normalized(); }

  std::int64_t extent(std::size_t axis) const { return hi[axis] - lo[axis]; }
  Shape shape() const { return {extent(kC), extent(kD), extent(kH), extent(kW)}; }
  std::int64_t volume() const { return shape().volume(); }
  bool empty() const {
    for (std::size_t a = 0; a < 4; ++a)
      if (hi[a] <= lo[a]) return true;
    return false;
  }
  /// Box{} when empty, itself otherwise, so that boxes are equal if they hold the same elements.
  Box normalized() const { return empty() ? Box{} : *this; }
  bool contains(const Box& other) const {
    return other.empty() || intersect(*this, other) == other;
  }

  friend Box intersect(const Box& a, const Box& b) {
    Box r;
    for (std::size_t i = 0; i < 4; ++i) {
      r.lo[i] = std::max(a.lo[i], b.lo[i]);
      r.hi[i] = std::min(a.hi[i], b.hi[i]);
    }
    return r.normalized();
  }
  /// The smallest box that contains both; an empty box contributes nothing.
  friend Box hull(const Box& a, const Box& b) {
    if (a.empty()) return b.normalized();
    if (b.empty()) return a;
    Box r;
    for (std::size_t i = 0; i < 4; ++i) {
      r.lo[i] = std::min(a.lo[i], b.lo[i]);
      r.hi[i] = std::max(a.hi[i], b.hi[i]);
    }
    return r;
  }
  friend auto operator<=>(const Box&, const Box&) = default;
};

/// The block of `box` with the D range [lo, hi): a chunk of planes.
inline Box with_d_range(Box box, std::int64_t lo, std::int64_t hi) {
  box.lo[kD] = lo;
  box.hi[kD] = hi;
  return box.normalized();
}

}  // namespace halomesh

/// Prints "[d0,d1)x[h0,h1)x[w0,w1)xC" (channels as a count when they start at 0).
template <>
struct fmt::formatter<halomesh::Box> : halomesh::PlainFormatter {
  static auto format(const halomesh::Box& b, fmt::format_context& context) {
    if (b.empty()) return print("empty", context);
    std::string text;
    for (const std::size_t a : {halomesh::kD, halomesh::kH, halomesh::kW})
      text += fmt::format("[{},{})x", b.lo[a], b.hi[a]);
    const auto lo = b.lo[halomesh::kC], hi = b.hi[halomesh::kC];
    return print(text + (lo == 0 ? fmt::format("{}", hi) : fmt::format("[{},{})", lo, hi)),
                 context);
  }
};

namespace halomesh {

inline std::ostream& operator<<(std::ostream& out, const Box& b) {
  return out << fmt::format("{}", b);
}

}  // namespace halomesh
