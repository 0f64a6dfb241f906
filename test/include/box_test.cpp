// SPDX-License-Identifier: Apache-2.0
// Boxes: intersection, hull, containment and text against literal tables.
#include "box.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <vector>

namespace halomesh {
namespace {

Box box(std::array<std::int64_t, 4> lo, std::array<std::int64_t, 4> hi) { return {lo, hi}; }

struct PairRow {
  const char* name;
  Box a, b, intersection, hull;
};

const std::vector<PairRow> kPairs = {
    {"overlap", box({0, 0, 0, 0}, {4, 8, 8, 8}), box({0, 4, 2, 0}, {4, 12, 6, 8}),
     box({0, 4, 2, 0}, {4, 8, 6, 8}), box({0, 0, 0, 0}, {4, 12, 8, 8})},
    {"inside", box({0, 0, 0, 0}, {4, 8, 8, 8}), box({1, 1, 1, 1}, {2, 2, 2, 2}),
     box({1, 1, 1, 1}, {2, 2, 2, 2}), box({0, 0, 0, 0}, {4, 8, 8, 8})},
    {"touching faces", box({0, 0, 0, 0}, {1, 4, 4, 4}), box({0, 4, 0, 0}, {1, 8, 4, 4}), Box{},
     box({0, 0, 0, 0}, {1, 8, 4, 4})},
    {"apart in channels only", box({0, 0, 0, 0}, {2, 4, 4, 4}), box({2, 0, 0, 0}, {4, 4, 4, 4}),
     Box{}, box({0, 0, 0, 0}, {4, 4, 4, 4})},
    {"one plane", box({0, 0, 0, 0}, {1, 4, 4, 4}), box({0, 3, 0, 0}, {1, 7, 4, 4}),
     box({0, 3, 0, 0}, {1, 4, 4, 4}), box({0, 0, 0, 0}, {1, 7, 4, 4})},
    {"one empty", box({0, 2, 2, 2}, {1, 4, 4, 4}), Box{}, Box{}, box({0, 2, 2, 2}, {1, 4, 4, 4})},
    {"both empty", Box{}, Box{}, Box{}, Box{}},
};

TEST_CASE("intersection and hull match the table and are symmetric") {
  int compared = 0;
  for (const PairRow& row : kPairs) {
    CAPTURE(row.name);
    CHECK(intersect(row.a, row.b) == row.intersection);
    CHECK(intersect(row.b, row.a) == row.intersection);
    CHECK(hull(row.a, row.b) == row.hull);
    CHECK(hull(row.b, row.a) == row.hull);
    CHECK(row.hull.contains(row.a));
    CHECK(row.a.contains(row.intersection));
    compared += 6;
  }
  CHECK(compared == 42);
}

TEST_CASE("a box with an empty axis equals the empty box once normalized") {
  for (std::size_t axis = 0; axis < 4; ++axis) {
    Box b = box({0, 3, 3, 3}, {4, 5, 5, 5});
    b.hi[axis] = b.lo[axis];
    CHECK(b.empty());
    CHECK(b.normalized() == Box{});
    b.hi[axis] = b.lo[axis] - 1;
    CHECK(b.normalized() == Box{});
  }
  CHECK(Box::whole(Shape{4, 0, 2, 2}) == Box{});
}

TEST_CASE("shape, volume and D ranges") {
  const Box b = box({1, 2, 3, 4}, {3, 5, 7, 9});
  CHECK(b.shape() == Shape{2, 3, 4, 5});
  CHECK(b.volume() == 120);
  CHECK(with_d_range(b, 3, 4) == box({1, 3, 3, 4}, {3, 4, 7, 9}));
  CHECK(with_d_range(b, 4, 4) == Box{});
  // 2^40 elements do not fit 32 bits.
  CHECK(Box::whole(Shape{1024, 1024, 1024, 1024}).volume() == std::int64_t{1} << 40);
}

TEST_CASE("containment") {
  const Box b = box({0, 0, 0, 0}, {4, 8, 8, 8});
  CHECK(b.contains(b));
  CHECK(b.contains(Box{}));
  CHECK_FALSE(Box{}.contains(b));
  CHECK_FALSE(b.contains(box({0, 0, 0, 0}, {4, 8, 8, 9})));
  CHECK_FALSE(b.contains(box({0, -1, 0, 0}, {4, 8, 8, 8})));
}

TEST_CASE("text names the ranges, and channels as a count when they start at 0") {
  const auto text = [](const Box& b) {
    std::ostringstream out;
    out << b;
    return out.str();
  };
  CHECK(text(box({0, 1, 2, 3}, {4, 5, 6, 7})) == "[1,5)x[2,6)x[3,7)x4");
  CHECK(text(box({2, 1, 2, 3}, {4, 5, 6, 7})) == "[1,5)x[2,6)x[3,7)x[2,4)");
  CHECK(text(Box{}) == "empty");
}

}  // namespace
}  // namespace halomesh
