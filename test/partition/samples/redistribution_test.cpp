// SPDX-License-Identifier: Apache-2.0
// Redistributions are exact covers: every voxel of every block once, from a part that keeps it.
// Copies no data; see test/nn/transform_test for the copies.
#include "partition/samples/redistribution.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "error.hpp"
#include "test/harness/staged_sample.hpp"

namespace halomesh {
namespace {

TEST_CASE(
    "redistribution: each block of each transformed sample is covered once, by parts that keep "
    "it") {
  std::int64_t blocks = 0, pieces = 0;
  for (const Shape& shape : {Shape{2, 7, 7, 7}, Shape{1, 6, 6, 5}, Shape{1, 5, 7, 9}})
    for (const PartGrid& grid :
         {PartGrid{1, 1, 1}, PartGrid{3, 1, 1}, PartGrid{1, 4, 1}, PartGrid{2, 3, 1},
          PartGrid{2, 2, 2}, PartGrid{3, 1, 2}, PartGrid{9, 1, 1}}) {
      const StagedSample sample = staged_sample(shape, grid, 2);
      for (const Symmetry& symmetry : symmetries_of(shape)) {
        const TransferPlan plan = plan_redistribution(sample, symmetry);
        const auto& transfers = plan.transfers();
        CHECK(std::is_sorted(transfers.begin(), transfers.end()));
        for (std::size_t dst = 0; dst < sample.blocks.size(); ++dst) {
          std::vector<Box> images;
          std::int64_t volume = 0;
          for (const Transfer& t : transfers) {
            if (t.dst != static_cast<std::int64_t>(dst)) continue;
            CHECK(sample.blocks[static_cast<std::size_t>(t.src)].contains(t.box));
            const Box image = symmetry.mapped(t.box, shape);
            CHECK(sample.blocks[dst].contains(image));
            for (const Box& before : images) CHECK(intersect(before, image).empty());
            images.push_back(image);
            volume += image.volume();
            ++pieces;
          }
          CHECK(volume == sample.blocks[dst].volume());
          ++blocks;
        }
        for (std::size_t i = 1; i < transfers.size(); ++i)
          CHECK((transfers[i].src != transfers[i - 1].src ||
                 transfers[i].dst != transfers[i - 1].dst));
      }
    }
  CHECK(blocks > 2000);
  CHECK(pieces > blocks);
}

TEST_CASE(
    "redistribution: an untransformed block comes entirely from the same part, halo included") {
  const StagedSample sample = staged_sample({2, 7, 7, 7}, {2, 2, 1}, 2);
  const TransferPlan plan = plan_redistribution(sample, {});
  REQUIRE(plan.transfers().size() == 4);
  for (std::int64_t p = 0; p < 4; ++p)
    CHECK(plan.transfers()[static_cast<std::size_t>(p)] ==
          Transfer{p, p, sample.blocks[static_cast<std::size_t>(p)]});
}

TEST_CASE("redistribution: a symmetry that changes the shape is refused") {
  Symmetry swap;
  swap.permutation = {1, 0, 2};
  CHECK_THROWS_AS(plan_redistribution(staged_sample({1, 4, 5, 6}, {1, 1, 1}, 2), swap), Error);
}

TEST_CASE("redistribution: blocks of labels are owned once, and make up the field") {
  const Shape shape{1, 4, 2, 2};
  const Box low{{0, 0, 0, 0}, {1, 2, 2, 2}}, high{{0, 2, 0, 0}, {1, 4, 2, 2}};
  const StagedSample sample = staged_in_blocks(shape, {low, low, high, Box{}});
  CHECK(sample.owned == Partition{low, Box{}, high, Box{}});
  CHECK(sample.blocks == std::vector<Box>{low, low, high, Box{}});
  CHECK_THROWS_AS(staged_in_blocks(shape, {low, Box{}}), Error);
  CHECK_THROWS_AS(staged_in_blocks(shape, {low, Box::whole(shape)}), Error);
}

}  // namespace
}  // namespace halomesh
