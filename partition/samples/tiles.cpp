// SPDX-License-Identifier: Apache-2.0
// Slabs and tiles of blocks: see tiles.hpp.
#include "partition/samples/tiles.hpp"

namespace halomesh {

std::vector<Box> slabs_of(const Box& block, std::int64_t counts) {
  std::vector<Box> slabs;
  for_each_slab(block, counts, [&](const Box& slab) { slabs.push_back(slab); });
  return slabs;
}

std::vector<Box> tiles_of(const Box& box) {
  std::vector<Box> tiles;
  for_each_tile(box, [&](const Box& tile) { tiles.push_back(tile); });
  return tiles;
}

}  // namespace halomesh
