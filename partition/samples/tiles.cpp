// SPDX-License-Identifier: Apache-2.0
// Slabs and tiles of blocks: see tiles.hpp.
#include "partition/samples/tiles.hpp"

#include <algorithm>
#include <array>

namespace halomesh {
namespace {

/// A box in steps of these extents along d, h and w, the last axis fastest.
std::vector<Box> cut(const Box& box, const std::array<std::int64_t, 3>& step) {
  std::vector<Box> pieces;
  if (box.empty()) return pieces;
  for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; d += step[0])
    for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; h += step[1])
      for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; w += step[2])
        pieces.push_back(intersect(
            box, {{box.lo[kC], d, h, w}, {box.hi[kC], d + step[0], h + step[1], w + step[2]}}));
  return pieces;
}

}  // namespace

std::vector<Box> slabs_of(const Box& block, std::int64_t counts) {
  if (block.empty()) return {};
  const std::int64_t row = block.extent(kW) * block.extent(kC), plane = block.extent(kH) * row;
  if (plane <= counts) return cut(block, {counts / plane, block.extent(kH), block.extent(kW)});
  return cut(block, {1, std::max<std::int64_t>(1, counts / row), block.extent(kW)});
}

std::vector<Box> tiles_of(const Box& box) {
  std::vector<Box> tiles;
  for_each_tile(box, [&](const Box& tile) { tiles.push_back(tile); });
  return tiles;
}

}  // namespace halomesh
