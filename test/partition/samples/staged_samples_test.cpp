// SPDX-License-Identifier: Apache-2.0
// The geometry of samples that are alike, and of samples with extents of their own.
#include "partition/samples/staged_samples.hpp"

#include <doctest/doctest.h>

#include <array>
#include <vector>

namespace halomesh {
namespace {

TEST_CASE("staged samples: alike, each has the geometry of all") {
  const Shape shape{2, 5, 4, 3};
  const Partition owned = block_partition(shape, {2, 1, 1});
  const StagedSamples samples(StagedSample{shape, owned, {Box::whole(shape), owned[1]}});
  REQUIRE(samples.each() != nullptr);
  CHECK(samples.shape(7) == shape);
  CHECK(samples.block(7, 0) == Box::whole(shape));
  CHECK(samples.of(3).blocks == std::vector<Box>{Box::whole(shape), owned[1]});
  CHECK(samples.chosen(std::array<std::int64_t, 1>{5}).block(0, 1) == owned[1]);
}

TEST_CASE("staged samples: of different extents, each is in a partition of its own") {
  const std::vector<Shape> shapes{{1, 8, 6, 5}, {1, 3, 1, 2}, {1, 1, 7, 4}};
  const PartGrid grid{4, 2, 1};
  const StagedSamples samples(shapes, grid);
  CHECK(samples.each() == nullptr);
  std::int64_t empty = 0;
  for (std::int64_t sample = 0; sample < 3; ++sample) {
    const Shape& shape = shapes[static_cast<std::size_t>(sample)];
    const StagedSample whole = samples.of(sample);
    CHECK(samples.shape(sample) == shape);
    CHECK(whole.shape == shape);
    CHECK(whole.owned == whole.blocks);
    REQUIRE(std::ssize(whole.blocks) == grid.count());
    CHECK(is_partition(whole.blocks, shape));
    for (std::int64_t part = 0; part < grid.count(); ++part) {
      CHECK(samples.block(sample, part) == whole.blocks[static_cast<std::size_t>(part)]);
      empty += samples.block(sample, part).empty() ? 1 : 0;
    }
  }
  CHECK(samples.block(0, 3) == Box{{0, 2, 3, 0}, {1, 4, 6, 5}});
  CHECK(empty == 5 + 6);  // thinner than the grid has parts
  const StagedSamples some = samples.chosen(std::array<std::int64_t, 3>{2, 0, 2});
  CHECK(some.shape(0) == shapes[2]);
  CHECK(some.shape(1) == shapes[0]);
  CHECK(some.block(2, 0) == samples.block(2, 0));
}

}  // namespace
}  // namespace halomesh
