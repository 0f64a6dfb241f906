// SPDX-License-Identifier: Apache-2.0
// Cuts in blocks of space times groups of channels, against literal tables.
#include "partition/cuts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "error.hpp"

namespace halomesh {
namespace {

TEST_CASE("channels are cut in whole vectors of 16, all of space on every part") {
  struct Row {
    std::int64_t channels, parts;
    std::vector<std::int64_t> cuts;  // part p has [cuts[p], cuts[p + 1])
  };
  const std::vector<Row> rows{
      {32, 2, {0, 16, 32}},     {40, 2, {0, 32, 40}},  // three vectors, the last one short
      {40, 3, {0, 16, 32, 40}}, {112, 3, {0, 48, 80, 112}},  {100, 6, {0, 32, 48, 64, 80, 96, 100}},
      {5, 1, {0, 5}},           {20, 4, {0, 16, 20, 20, 20}}};  // more parts than vectors
  int compared = 0;
  for (const Row& row : rows) {
    const Shape shape{row.channels, 3, 2, 1};
    const Partition partition = cut_partition(shape, {1, 1, row.parts}, {{1, 1, 1}, row.parts});
    CHECK(is_partition(partition, shape));
    REQUIRE(std::ssize(partition) == row.parts);
    for (std::size_t p = 0; p < partition.size(); ++p, ++compared)
      CHECK(partition[p] == Box{{row.cuts[p], 0, 0, 0}, {row.cuts[p + 1], 3, 2, 1}}.normalized());
  }
  CHECK(compared == 21);
}

TEST_CASE("every cut of a grid: blocks of space first, channels alone last") {
  const auto texts = [](const PartGrid& grid) {
    std::string text;
    for (const TensorCut& cut : all_cuts(grid)) text += to_string(cut.space) + " ";
    return text;
  };
  CHECK(texts({1, 1, 1}) == "1x1x1 ");
  CHECK(texts({2, 2, 1}) == "2x2x1 2x1x1 1x2x1 1x1x1 ");
  CHECK(texts({3, 1, 2}) == "3x1x2 3x1x1 1x1x2 1x1x1 ");
  CHECK(texts({4, 1, 1}) == "4x1x1 2x1x1 1x1x1 ");
  CHECK(to_string(TensorCut{{2, 2, 1}, 8}) == "4x8");
}

TEST_CASE(
    "neighbouring parts share a block of space and number its channel groups in their order") {
  const Shape shape{64, 8, 6, 5};
  const PartGrid grid{4, 2, 1};
  // Two blocks along d, of the parts 0-3 and 4-7, in four groups of 16 channels.
  const TensorCut cut{{2, 1, 1}, 4};
  for (std::int64_t part = 0; part < 8; ++part) {
    const std::int64_t d = part / 4 * 4, c = part % 4 * 16;
    CHECK(cut_box(shape, grid, cut, part) == Box{{c, d, 0, 0}, {c + 16, d + 4, 6, 5}});
  }
  // Two blocks along h, each of the parts in one column of the grid.
  for (std::int64_t part = 0; part < 8; ++part) {
    const std::int64_t h = part % 2 * 3, c = part / 2 * 16;
    CHECK(cut_box(shape, grid, {{1, 2, 1}, 4}, part) == Box{{c, 0, h, 0}, {c + 16, 8, h + 3, 5}});
  }
  CHECK(cut_box(shape, grid, {grid, 1}, 5) == block_partition(shape, grid)[5]);
}

TEST_CASE("every cut of 1 to 16 parts is a partition, even with more blocks than planes") {
  int compared = 0;
  for (const Shape& shape : {Shape{64, 8, 8, 8}, Shape{100, 5, 7, 3}, Shape{20, 1, 2, 9}})
    for (const PartGrid grid : {PartGrid{1, 1, 1}, PartGrid{2, 2, 1}, PartGrid{3, 2, 1},
                                PartGrid{2, 2, 2}, PartGrid{1, 3, 3}, PartGrid{4, 4, 1}})
      for (const TensorCut& cut : all_cuts(grid)) {
        CHECK(cut.space.count() * cut.groups == grid.count());
        const Partition partition = cut_partition(shape, grid, cut);
        CHECK(is_partition(partition, shape));
        compared += static_cast<int>(partition.size());
      }
  CHECK(compared == 3 * (1 + 4 * 4 + 4 * 6 + 8 * 8 + 4 * 9 + 9 * 16));
}

std::string refusal(const std::string& text) {
  try {
    parse_cuts(text);
  } catch (const UsageError& error) {
    CHECK(error.hint().size() > 5);
    return error.what();
  }
  return "nothing was thrown";
}

TEST_CASE("settings are read; what cannot be read is named") {
  using Kind = CutSetting::Kind;
  CHECK(parse_cuts("auto").kind == Kind::kAuto);
  CHECK(parse_cuts("space").kind == Kind::kSpace);
  CHECK(parse_cuts("channels").kind == Kind::kChannels);
  const CutSetting list = parse_cuts("conv4:4x2,conv5:1x8");
  CHECK(list.kind == Kind::kList);
  REQUIRE(list.list.size() == 2);
  CHECK(list.list[0].layer == "conv4");
  CHECK(list.list[0].blocks == 4);
  CHECK(list.list[1].layer == "conv5");
  CHECK(list.list[1].groups == 8);
  for (const char* bad :
       {"", "spaces", "conv4", "conv4:", ":4x2", "conv4:4", "conv4:4x", "conv4:x2", "conv4:4x2x1",
        "conv4:0x2", "conv4:4x-1", "conv4:4x2,", "conv4: 4x2"}) {
    CAPTURE(bad);
    CHECK(refusal(bad).find("cannot be read") != std::string::npos);
  }
  CHECK(refusal("a:1x2,b:2x1,a:2x1") == "--cuts a:1x2,b:2x1,a:2x1 names a twice");
}

}  // namespace
}  // namespace halomesh
