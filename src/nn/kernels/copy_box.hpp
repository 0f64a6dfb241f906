// SPDX-License-Identifier: Apache-2.0
// Copies a box of one view to a box elsewhere in another view.
#pragma once

#include <cstdint>
#include <cstring>

#include "src/nn/tensor.hpp"

namespace halomesh {

/// Copies `from_box` of all samples to `to_box`, which has equal extents; each view contains its
/// box and both have one type. Local; allocates nothing.
inline void copy_box(const AnyConstView& from, const Box& from_box, const AnyView& to,
                     const Box& to_box) {
  if (from_box.empty()) return;
  const std::int64_t depth = from_box.extent(kD), height = from_box.extent(kH);
  const bool whole =
      from_box.extent(kC) == from.span.extent(kC) && to_box.extent(kC) == to.span.extent(kC);
  const std::int64_t runs = whole ? 1 : from_box.extent(kW);
  const auto bytes = static_cast<std::size_t>(from_box.extent(kC) * from_box.extent(kW) / runs *
                                              size_of(from.type));
  const std::int64_t rows = from.batch * depth * height;
  const auto place = [&](const auto& view, const Box& box, std::int64_t row, std::int64_t run) {
    const std::int64_t d = row / height % depth, h = row % height;
    return view.begin_of(
        row / (depth * height),
        Box{{box.lo[kC], box.lo[kD] + d, box.lo[kH] + h, box.lo[kW] + run}, box.hi});
  };
#pragma omp parallel for schedule(static) if (from_box.volume() * from.batch > 32768)
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t run = 0; run < runs; ++run)
      std::memcpy(place(to, to_box, row, run), place(from, from_box, row, run), bytes);
}

}  // namespace halomesh
