// SPDX-License-Identifier: Apache-2.0
// Random crops: within the sample, around foreground as often as asked, a function of seed, epoch
// and sample; and the voxels of foreground, whatever the boxes in which labels come.
#include "partition/samples/crops.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "partition/samples/tiles.hpp"

namespace halomesh {
namespace {

const Spatial kExtents{20, 9, 12}, kCrop{8, 9, 5};

Foreground found_in(const std::vector<std::uint8_t>& labels, const Shape& shape,
                    std::int64_t classes, std::int64_t slab) {
  ForegroundSearch search(classes);
  std::vector<Box> slabs = slabs_of(Box::whole(shape), slab);
  std::reverse(slabs.begin(), slabs.end());
  for (const Box& box : slabs)
    search.take(box, labels.data() + (box.lo[kD] * shape.h + box.lo[kH]) * shape.w);
  return search.found();
}

}  // namespace

TEST_CASE("random crops lie within the sample, anywhere, and repeat with seed, epoch and number") {
  const CropDraw draw(7, kCrop, 0.5);
  std::array<std::set<std::int64_t>, 3> seen;
  for (std::int64_t sample = 0; sample < 500; ++sample) {
    const Spatial origin = draw(3, sample, kExtents);
    CHECK(origin == CropDraw(7, kCrop, 0.5)(3, sample, kExtents));
    for (std::size_t axis = 0; axis < 3; ++axis) {
      CHECK(origin[axis] >= 0);
      CHECK(origin[axis] + kCrop[axis] <= kExtents[axis]);
      seen[axis].insert(origin[axis]);
    }
  }
  CHECK(seen[0].size() == 13);
  CHECK(seen[1].size() == 1);
  CHECK(seen[2].size() == 8);
  CHECK(draw(3, 0, kExtents) != draw(4, 0, kExtents));
  CHECK(draw(3, 0, kExtents) != CropDraw(8, kCrop, 0.5)(3, 0, kExtents));
}

TEST_CASE("the asked share of crops has a voxel of a class, each class equally often") {
  // In opposite corners, so that no crop has both, and 1 of 13 * 8 random ones has one of them.
  const Foreground foreground{{{0, 0, 0}}, {{19, 8, 11}}};
  const CropDraw draw(1, kCrop, 0.4);
  int first = 0, second = 0;
  constexpr int kDraws = 10000;
  for (std::int64_t sample = 0; sample < kDraws; ++sample) {
    const Spatial origin = draw(0, sample, kExtents, foreground);
    first += origin == Spatial{0, 0, 0} ? 1 : 0;
    second += origin == Spatial{12, 0, 7} ? 1 : 0;
  }
  // Of each 0.2 + 0.6 / 104: 4 standard deviations of 0.004.
  for (const int count : {first, second})
    CHECK(std::abs(count / static_cast<double>(kDraws) - (0.2 + 0.6 / 104)) < 0.017);
  // A voxel in the middle may be anywhere in the crop.
  std::set<std::int64_t> places;
  const CropDraw always(1, kCrop, 1);
  for (std::int64_t sample = 0; sample < 500; ++sample) {
    const Spatial origin = always(0, sample, kExtents, {{{10, 4, 6}}});
    CHECK(origin[0] <= 10);
    CHECK(origin[0] > 10 - kCrop[0]);
    CHECK(origin[2] <= 6);
    CHECK(origin[2] > 6 - kCrop[2]);
    places.insert(10 - origin[0]);
  }
  CHECK(places.size() == 8);
}

TEST_CASE("smaller samples lie in the middle of their crop") {
  const Spatial extents{5, 30, 8}, crop{8, 8, 8};
  CHECK(centred_origin(extents, crop) == Spatial{-1, 11, 0});
  for (std::int64_t sample = 0; sample < 50; ++sample) {
    const Spatial origin = CropDraw(1, crop, 1)(0, sample, extents, {{{4, 0, 0}}});
    CHECK(origin == Spatial{-1, 0, 0});
  }
}

TEST_CASE("voxels of foreground do not depend on the boxes in which labels come") {
  const Shape shape{1, 12, 11, 10};
  std::vector<std::uint8_t> labels(static_cast<std::size_t>(shape.volume()));
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = i % 7 == 0 ? 1 : i == 500 || i == 701 ? 3 : i == 3 ? 255 : 0;
  const Foreground whole = found_in(labels, shape, 5, shape.volume());
  REQUIRE(whole.size() == 2);  // classes 1 and 3
  CHECK(whole[0].size() == ForegroundSearch::kKept);
  CHECK(whole[1].size() == 2);
  for (const Voxel& v : whole[0])
    CHECK(labels[static_cast<std::size_t>((v.d * shape.h + v.h) * shape.w + v.w)] == 1);
  for (const std::int64_t slab : {10, 30, 110, 400})
    CHECK(found_in(labels, shape, 5, slab) == whole);
  std::set<std::uint16_t> planes;
  for (const Voxel& v : whole[0]) planes.insert(v.d);
  CHECK(planes.size() >= 8);  // spread over the 12 planes

  // What searches of two boxes have found makes up what one of both finds.
  ForegroundSearch first(5), second(5), both(5);
  const Box lower = Box{{0, 0, 0, 0}, {1, 5, 11, 10}}, upper = Box{{0, 5, 0, 0}, {1, 12, 11, 10}};
  first.take(lower, labels.data());
  second.take(upper, labels.data() + lower.volume());
  for (const ForegroundSearch* const search : {&second, &first}) {
    const auto found = search->found_by_class();
    REQUIRE(found.size() == 5);
    CHECK(found[2].empty());
    for (std::size_t label = 0; label < found.size(); ++label)
      for (const Voxel& voxel : found[label]) both.take(label, voxel);
  }
  CHECK(both.found() == whole);
}

}  // namespace halomesh
