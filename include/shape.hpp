// The global extents of one sample's tensor and of spatial vectors; axes are d, h, w everywhere.
#pragma once

#include <array>
#include <cstdint>
#include <ostream>

namespace halomesh {

/// One value per spatial axis, in the order d, h, w.
using Spatial = std::array<std::int64_t, 3>;

/// Global extents of one sample's tensor: channels and the three spatial axes, in elements.
struct Shape {
  std::int64_t c = 0, d = 0, h = 0, w = 0;

  std::int64_t volume() const { return c * d * h * w; }
  Spatial spatial() const { return {d, h, w}; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

inline std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << s.d << 'x' << s.h << 'x' << s.w << 'x' << s.c;
}

}  // namespace halomesh
