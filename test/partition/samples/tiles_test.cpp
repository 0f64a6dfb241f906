// SPDX-License-Identifier: Apache-2.0
// Slabs and tiles are exact covers, in order, within their bounds.
#include "partition/samples/tiles.hpp"

#include <doctest/doctest.h>

namespace halomesh {
namespace {

std::int64_t check_cover(const Box& box, const std::vector<Box>& pieces) {
  std::int64_t volume = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    CHECK_FALSE(pieces[i].empty());
    CHECK(box.contains(pieces[i]));
    CHECK((pieces[i].lo[kC] == box.lo[kC] && pieces[i].hi[kC] == box.hi[kC]));
    for (std::size_t k = 0; k < i; ++k) CHECK(intersect(pieces[i], pieces[k]).empty());
    volume += pieces[i].volume();
  }
  CHECK(volume == box.volume());
  return volume;
}

TEST_CASE("tiles: slabs are contiguous, in order and within their bound, or single rows") {
  const Box box{{1, 2, 3, 4}, {4, 9, 13, 10}};  // rows of 18, planes of 180, 7 planes
  std::int64_t covered = 0;
  for (const std::int64_t counts : {1, 18, 50, 179, 180, 359, 360, 500, 1260, 5000}) {
    const std::vector<Box> layers = slabs_of(box, counts);
    covered += check_cover(box, layers);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      CHECK(layers[i].volume() <= std::max<std::int64_t>(counts, 18));
      CHECK((layers[i].extent(kW) == 6));
      CHECK((layers[i].extent(kH) == 10 || layers[i].extent(kD) == 1));
      if (i > 0)
        CHECK((layers[i].lo[kD] * 20 + layers[i].lo[kH] >
               layers[i - 1].lo[kD] * 20 + layers[i - 1].lo[kH]));
    }
  }
  CHECK(covered == 10 * box.volume());
  CHECK(slabs_of(box, 360).size() == 4);
  CHECK(slabs_of(box, 50).size() == 7 * 5);
  CHECK(slabs_of(Box{}, 50).empty());
}

TEST_CASE("tiles: at most 16 x 16 pixels by 128 numbers of a row") {
  std::int64_t covered = 0;
  for (const std::int64_t c : {1, 3, 4, 200}) {
    const Box box{{0, 5, 0, 7}, {c, 40, 17, 80}};
    const std::vector<Box> tiles = tiles_of(box);
    covered += check_cover(box, tiles);
    for (const Box& tile : tiles) {
      CHECK((tile.extent(kD) <= 16 && tile.extent(kH) <= 16));
      CHECK((tile.extent(kW) * c <= 128 || tile.extent(kW) == 1));
      if (c <= 128) CHECK(tile.volume() <= kTileCounts);
    }
  }
  CHECK(covered > 0);
  CHECK(tiles_of(Box{}).empty());
}

}  // namespace
}  // namespace halomesh
