// SPDX-License-Identifier: Apache-2.0
// The interval of values that fits each class best, on voxels where it is known.
#include "src/baseline/value_intervals.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace halomesh {

TEST_CASE("ranges reach from the least to the largest value of each channel") {
  std::vector<ValueRange> ranges{{1e30F, -1e30F}, {1e30F, -1e30F}};
  widen(std::vector<float>{3, -1, 2, 5, 4, 0}, ranges);
  CHECK(ranges[0].low == 2);
  CHECK(ranges[0].high == 4);
  CHECK(ranges[1].low == -1);
  CHECK(ranges[1].high == 5);
}

TEST_CASE("each class gets the channel and the values that tell it from others") {
  // Channel 0 says nothing; of channel 1, the background has 3 to 87, class 1 has 100 to 119 and
  // class 2 has 200 to 249, and a tenth of the background looks like class 1.
  ValueIntervals intervals({{0, 10}, {0, 256}}, 3);
  std::vector<float> values;
  std::vector<std::uint8_t> labels;
  for (int i = 0; i < 6000; ++i) {
    const auto label = static_cast<std::uint8_t>(i % 3);
    int value = label == 0 ? i % 90 : label == 1 ? 100 + i % 20 : 200 + i % 50;
    if (label == 0 && i % 10 == 0) value = 110;
    values.insert(values.end(), {static_cast<float>(i % 11), static_cast<float>(value) + 0.5F});
    labels.push_back(label);
  }
  intervals.add(values, labels);
  intervals.fit();
  const auto is = [&](std::int64_t label, float value) {
    const std::array<float, 2> voxel{5, value};
    return intervals.contains(label, voxel.data());
  };
  CHECK(is(0, 3.5F));
  CHECK_FALSE(is(0, 2.5F));
  CHECK(is(0, 87.5F));
  CHECK_FALSE(is(0, 88.5F));
  CHECK(is(1, 100.5F));
  CHECK(is(1, 119.5F));
  CHECK_FALSE(is(1, 99.5F));
  CHECK_FALSE(is(1, 120.5F));
  CHECK(is(2, 200.5F));
  CHECK(is(2, 249.5F));
  CHECK_FALSE(is(2, 199.5F));
  CHECK_FALSE(is(2, 250.5F));
}

TEST_CASE("a channel without a range and a class without a voxel do no harm") {
  ValueIntervals intervals({{1, 1}}, 2);
  intervals.add(std::vector<float>{1, 1}, std::vector<std::uint8_t>{0, 0});
  intervals.fit();
  const float value = 1;
  CHECK(intervals.contains(0, &value));
}

}  // namespace halomesh
