// SPDX-License-Identifier: Apache-2.0
// The global extents of one sample's tensor and of spatial vectors; axes are d, h, w everywhere.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <ostream>
#include <string_view>

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

/// The base of the formatters of our own types, which take no format options, only "{}".
struct PlainFormatter {
  static constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }

 protected:
  /// Does not call fmt::format_to(): compilers disagree on the symbol of its instance in a shared
  /// libfmt.
  static auto print(std::string_view text, fmt::format_context& context) {
    return std::copy(text.begin(), text.end(), context.out());
  }
};

}  // namespace halomesh

/// Prints "DxHxWxC".
template <>
struct fmt::formatter<halomesh::Shape> : halomesh::PlainFormatter {
  static auto format(const halomesh::Shape& s, fmt::format_context& context) {
    return print(fmt::format("{}x{}x{}x{}", s.d, s.h, s.w, s.c), context);
  }
};

namespace halomesh {

inline std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << fmt::format("{}", s);
}

}  // namespace halomesh
