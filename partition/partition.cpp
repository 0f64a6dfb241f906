// SPDX-License-Identifier: Apache-2.0
// The boxes that parts own: see partition.hpp.
#include "partition/partition.hpp"

#include <algorithm>

#include "partition/box_index.hpp"

namespace halomesh {

Range block_range(std::int64_t extent, std::int64_t count, std::int64_t index) {
  const std::int64_t base = extent / count, larger = extent % count;
  const std::int64_t lo = index * base + std::min(index, larger);
  return {lo, lo + base + (index < larger ? 1 : 0)};
}

Box block_of_part(const Shape& shape, const PartGrid& grid, std::int64_t part) {
  const Spatial counts{grid.d, grid.h, grid.w}, extents = shape.spatial(),
                                                at = grid.coordinates(part);
  Box box = Box::whole(shape);
  for (std::size_t a = 0; a < 3; ++a) {
    const Range r = block_range(extents[a], counts[a], at[a]);
    box.lo[a + 1] = r.lo;
    box.hi[a + 1] = r.hi;
  }
  return box.normalized();
}

Partition block_partition(const Shape& shape, const PartGrid& grid) {
  Partition partition;
  for (std::int64_t part = 0; part < grid.count(); ++part)
    partition.push_back(block_of_part(shape, grid, part));
  return partition;
}

bool is_partition(const std::vector<Box>& boxes, const Shape& shape) {
  std::int64_t volume = 0;
  for (const Box& box : boxes) {
    if (!Box::whole(shape).contains(box)) return false;
    volume += box.volume();
  }
  if (volume != shape.volume()) return false;
  const BoxIndex index(boxes);
  return std::all_of(boxes.begin(), boxes.end(), [&](const Box& box) {
    return index.meeting(box).size() == (box.empty() ? 0U : 1U);
  });
}

}  // namespace halomesh
