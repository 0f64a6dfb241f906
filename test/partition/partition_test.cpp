// SPDX-License-Identifier: Apache-2.0
// Blocks with remainder against literal tables.
#include "partition/partition.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace halomesh {
namespace {

struct BlockRow {
  std::int64_t extent, count;
  std::vector<Range> blocks;
};

TEST_CASE("blocks differ by at most one plane, the larger first") {
  const std::vector<BlockRow> rows = {
      {8, 1, {{0, 8}}},
      {8, 2, {{0, 4}, {4, 8}}},
      {8, 3, {{0, 3}, {3, 6}, {6, 8}}},
      {7, 4, {{0, 2}, {2, 4}, {4, 6}, {6, 7}}},
      {4, 4, {{0, 1}, {1, 2}, {2, 3}, {3, 4}}},
      {2, 5, {{0, 1}, {1, 2}, {2, 2}, {2, 2}, {2, 2}}},  // more parts than planes
      {1, 2, {{0, 1}, {1, 1}}},
      {0, 2, {{0, 0}, {0, 0}}},
  };
  int compared = 0;
  for (const BlockRow& row : rows) {
    REQUIRE(std::ssize(row.blocks) == row.count);
    for (std::int64_t i = 0; i < row.count; ++i, ++compared) {
      CAPTURE(row.extent);
      CAPTURE(i);
      CHECK(block_range(row.extent, row.count, i) == row.blocks[static_cast<std::size_t>(i)]);
    }
  }
  CHECK(compared == 23);
}

TEST_CASE("every cut is a partition, with all channels in each block") {
  int compared = 0;
  for (const Shape& shape : {Shape{3, 8, 8, 8}, Shape{2, 7, 5, 3}, Shape{1, 1, 1, 1},
                             Shape{128, 1, 1, 1}, Shape{2, 1, 9, 2}})
    for (const PartGrid& grid : {PartGrid{1, 1, 1}, PartGrid{4, 1, 1}, PartGrid{2, 3, 1},
                                 PartGrid{2, 2, 2}, PartGrid{1, 5, 3}, PartGrid{18, 1, 1}}) {
      const Partition partition = block_partition(shape, grid);
      CHECK(std::ssize(partition) == grid.count());
      CHECK(is_partition(partition, shape));
      for (const Box& box : partition) {
        if (!box.empty()) CHECK(box.extent(kC) == shape.c);
        CHECK(box == box.normalized());
        ++compared;
      }
    }
  CHECK(compared == 5 * (1 + 4 + 6 + 8 + 15 + 18));
}

TEST_CASE("a cut of three axes") {
  const Partition p = block_partition(Shape{4, 5, 4, 3}, {2, 2, 1});
  CHECK(p[0] == Box{{0, 0, 0, 0}, {4, 3, 2, 3}});
  CHECK(p[1] == Box{{0, 0, 2, 0}, {4, 3, 4, 3}});
  CHECK(p[2] == Box{{0, 3, 0, 0}, {4, 5, 2, 3}});
  CHECK(p[3] == Box{{0, 3, 2, 0}, {4, 5, 4, 3}});
}

TEST_CASE("a vector is owned by part 0") {
  const Partition p = block_partition(Shape{128, 1, 1, 1}, {4, 4, 1});
  CHECK(p[0] == Box::whole(Shape{128, 1, 1, 1}));
  for (std::size_t i = 1; i < p.size(); ++i) CHECK(p[i].empty());
}

TEST_CASE("boxes that overlap, leave a gap or leave the tensor are not a partition") {
  const Shape shape{1, 4, 1, 1};
  const Box a{{0, 0, 0, 0}, {1, 2, 1, 1}}, b{{0, 2, 0, 0}, {1, 4, 1, 1}};
  CHECK(is_partition({a, b}, shape));
  CHECK(is_partition({Box{}, b, a, Box{}}, shape));
  CHECK_FALSE(is_partition({a}, shape));
  CHECK_FALSE(is_partition({a, b, a}, shape));
  CHECK_FALSE(is_partition({a, Box{{0, 1, 0, 0}, {1, 3, 1, 1}}}, shape));
  CHECK_FALSE(is_partition({a, Box{{0, 3, 0, 0}, {1, 5, 1, 1}}}, shape));
  CHECK_FALSE(is_partition({}, shape));
}

}  // namespace
}  // namespace halomesh
