// SPDX-License-Identifier: Apache-2.0
// Groups of parameters that the same parts hold, and buckets of their gradients, written by hand.
#include "src/nn/gradient_buckets.hpp"

#include <doctest/doctest.h>

#include "test/partition/pure_layers.hpp"

namespace halomesh {
namespace {

// A convolution of 3^3 x 1 inputs and 2 filters, another of 2 inputs, a dense layer of 3 outputs.
ModelGeometry cut_in_two() {
  static const WindowLayer convolution({3, 1, 1, 1, 1}, 2);
  static const SplitLayer dense(3);
  return ModelGeometry({1, 8, 4, 4},
                       {{"a", &convolution, {0}}, {"b", &convolution, {1}}, {"c", &dense, {2}}},
                       {2, 1, 1});
}

using Sizes = std::vector<std::int64_t>;

TEST_CASE("parameters of the same holders lie together, in layer order") {
  const ModelGeometry geometry = cut_in_two();
  for (const std::int64_t part : {0, 1}) {
    const std::vector<HolderGroup> groups = holder_groups(geometry, part);
    REQUIRE(groups.size() == 2);
    CHECK(groups[0].parts == Sizes{0, 1});
    CHECK(groups[1].parts == Sizes{part});  // half of the dense layer's inputs
    CHECK(groups[0].offset == 0);
    CHECK(groups[0].volume == 54 + 2 + 108 + 2);
    CHECK(groups[1].offset == 166);
    CHECK(groups[1].volume == 3 * 2 * 4 * 4 * 4);
    REQUIRE(groups[0].ranges.size() == 4);
    CHECK(groups[0].ranges[2].offset == 56);
    CHECK(groups[0].ranges[2].volume == 108);
  }
}

TEST_CASE("buckets are filled from the last layer, and close when they are full") {
  const ModelGeometry geometry = cut_in_two();
  HolderGroup group = holder_groups(geometry, 0)[0];
  const auto buckets = gradient_buckets(geometry, group, 4 * 100);
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0].offset == 56);  // bias and weight of b
  CHECK(buckets[0].volume == 110);
  CHECK(buckets[0].placement == 3);
  CHECK(buckets[0].layers == std::vector<std::size_t>{1, 1});
  CHECK(buckets[1].offset == 0);
  CHECK(buckets[1].volume == 56);
  CHECK(buckets[1].layers == std::vector<std::size_t>{0, 0});
  CHECK(gradient_buckets(geometry, group, 4 * 200).size() == 1);
  group.frozen_ranges = 2;
  CHECK(gradient_buckets(geometry, group, 4 * 200).at(0).volume == 110);
}

}  // namespace
}  // namespace halomesh
