// SPDX-License-Identifier: Apache-2.0
// Planes added at the sides of a tensor: see pad.hpp.
#include "src/nn/layers/pad.hpp"

#include <algorithm>

namespace halomesh {
namespace {

constexpr const char* kPadNames[] = {"constant", "edge", "reflect", "wrap"};

std::int64_t remainder_of(std::int64_t i, std::int64_t n) { return (i % n + n) % n; }

}  // namespace

Pad::Pad(const PadOptions& options)
    : Separable("padding", options.type, options.value), options_(options) {
  for (std::size_t a = 0; a < 3; ++a)
    require(options.before[a] >= 0 && options.after[a] >= 0,
            text("padding of {} planes before and {} after along axis {}", options.before[a],
                 options.after[a], a),
            "planes to add must not be negative; a crop takes planes away");
}

std::string Pad::kernel_name() const {
  return fmt::format("{} padding {}", kPadNames[static_cast<std::size_t>(options_.mode)],
                     name_of(type()));
}

Spatial Pad::extents_of(const Spatial& src) const {
  Spatial dst = src;
  for (std::size_t a = 0; a < 3; ++a) {
    dst[a] += options_.before[a] + options_.after[a];
    require(options_.mode != PadMode::kReflect || src[a] > 1 || dst[a] == src[a],
            text("reflection at the sides of {} plane along axis {}", src[a], a),
            "use a larger input or another kind of padding");
  }
  return dst;
}

void Pad::append_row(const Spatial& src, std::size_t axis, std::int64_t dst,
                     std::vector<Term>& row) const {
  const std::int64_t n = src[axis], plane = dst - options_.before[axis];
  const bool inside = plane >= 0 && plane < n;
  switch (options_.mode) {
    case PadMode::kConstant:
      if (inside) row.push_back({plane, 1});
      return;
    case PadMode::kEdge:
      return row.push_back({std::clamp<std::int64_t>(plane, 0, n - 1), 1});
    case PadMode::kReflect: {
      if (inside) return row.push_back({plane, 1});
      const std::int64_t period = 2 * (n - 1), i = remainder_of(plane, period);
      return row.push_back({std::min(i, period - i), 1});
    }
    case PadMode::kWrap:
      return row.push_back({remainder_of(plane, n), 1});
  }
}

}  // namespace halomesh
