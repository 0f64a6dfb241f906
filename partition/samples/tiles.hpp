// SPDX-License-Identifier: Apache-2.0
// The slabs and tiles in which blocks of voxels are read, sent and transformed, so that no second
// block is needed. Pure geometry.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "box.hpp"

namespace halomesh {

/// The slabs of a block, each contiguous in its memory (d,h,w,c), in that order: as many whole
/// planes along D as fit `counts` elements or, where a single plane has more, as many of its rows
/// as fit, at least one.
std::vector<Box> slabs_of(const Box& block, std::int64_t counts);

/// Calls visit(slab) for each of slabs_of(), in order, without allocating memory.
template <class Visit>
void for_each_slab(const Box& block, std::int64_t counts, Visit visit) {
  if (block.empty()) return;
  const std::int64_t row = block.extent(kW) * block.extent(kC), plane = block.extent(kH) * row;
  const bool planes = plane <= counts;
  const std::int64_t d_step = planes ? counts / plane : 1,
                     h_step = planes ? block.extent(kH) : std::max<std::int64_t>(1, counts / row);
  for (std::int64_t d = block.lo[kD]; d < block.hi[kD]; d += d_step)
    for (std::int64_t h = block.lo[kH]; h < block.hi[kH]; h += h_step)
      visit(intersect(block, {{block.lo[kC], d, h, block.lo[kW]},
                              {block.hi[kC], d + d_step, h + h_step, block.hi[kW]}}));
}

/// Elements of a tile where a pixel has up to 128 channels.
inline constexpr std::int64_t kTileCounts = 16 * 16 * 128;

/// The tiles that make up a box: up to 16 x 16 pixels by 128 elements of a row (at least a pixel),
/// so that whole cache lines of a tile are used for every permutation of its axes.
std::vector<Box> tiles_of(const Box& box);

/// Calls visit(tile) for each of tiles_of(box), in order, without allocating memory.
template <class Visit>
void for_each_tile(const Box& box, Visit visit) {
  if (box.empty()) return;
  const std::int64_t width = std::max<std::int64_t>(1, 128 / box.extent(kC));
  for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; d += 16)
    for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; h += 16)
      for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; w += width)
        visit(intersect(box, {{box.lo[kC], d, h, w}, {box.hi[kC], d + 16, h + 16, w + width}}));
}

}  // namespace halomesh
