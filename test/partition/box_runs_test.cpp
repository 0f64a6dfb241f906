// SPDX-License-Identifier: Apache-2.0
// The runs of boxes in samples against a walk over every voxel.
#include "partition/box_runs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace halomesh {
namespace {

using Run = std::pair<std::int64_t, std::int64_t>;

std::vector<Run> runs_of(const BoxRuns& runs, std::int64_t lo, std::int64_t hi) {
  std::vector<Run> found;
  runs.each(lo, hi,
            [&](std::int64_t a, std::int64_t b, std::int64_t) { found.emplace_back(a, b); });
  return found;
}

/// Offsets of the bytes of a box, in the order of the sample.
std::vector<std::int64_t> bytes_of(const Shape& s, const Box& box, std::int64_t unit) {
  std::vector<std::int64_t> bytes;
  for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
    for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
      for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
        for (std::int64_t c = box.lo[kC]; c < box.hi[kC]; ++c)
          for (std::int64_t i = 0; i < unit; ++i)
            bytes.push_back((((d * s.h + h) * s.w + w) * s.c + c) * unit + i);
  return bytes;
}

TEST_CASE("box_runs: as few runs as possible") {
  const Shape s{2, 4, 5, 6};  // c, d, h, w: a row of 24 bytes, a plane of 120
  const auto all = [&](const Box& box) { return runs_of(BoxRuns(s, box, 2), 0, 480); };
  CHECK(all(Box::whole(s)) == std::vector<Run>{{0, 480}});
  CHECK(all({{0, 1, 0, 0}, {2, 3, 5, 6}}) == std::vector<Run>{{120, 360}});
  CHECK(all({{0, 2, 1, 0}, {2, 4, 3, 6}}) == std::vector<Run>{{264, 312}, {384, 432}});
  CHECK(all({{0, 0, 4, 2}, {2, 2, 5, 5}}) == std::vector<Run>{{104, 116}, {224, 236}});
  CHECK(all({{1, 3, 4, 4}, {2, 4, 5, 6}}) == std::vector<Run>{{474, 476}, {478, 480}});
  CHECK(all({}).empty());
}

TEST_CASE("box_runs: any box, in pieces of any size, gives each of its bytes in order") {
  std::int64_t compared = 0;
  for (const Shape& s : {Shape{2, 3, 4, 5}, Shape{1, 5, 2, 3}, Shape{3, 2, 1, 4}})
    for (std::int64_t code = 0; code < 81; ++code) {
      Box box;
      std::int64_t rest = code;
      for (const std::size_t a : {kC, kD, kH, kW}) {  // all, the first half, or the rest
        const std::int64_t extent = Box::whole(s).hi[a], middle = (extent + 1) / 2;
        box.lo[a] = rest % 3 == 2 ? middle : 0;
        box.hi[a] = rest % 3 == 1 ? middle : extent;
        rest /= 3;
      }
      box = box.normalized();
      const std::vector<std::int64_t> expected = bytes_of(s, box, 2);
      const BoxRuns runs(s, box, 2);
      for (const std::int64_t piece : {1, 3, 7, 64, 1000}) {
        std::vector<std::int64_t> found;
        for (std::int64_t lo = 0; lo < 2 * s.volume(); lo += piece)
          runs.each(lo, lo + piece, [&](std::int64_t a, std::int64_t b, std::int64_t at) {
            CHECK(at == std::ssize(found));
            for (std::int64_t i = a; i < b; ++i) found.push_back(i);
          });
        CHECK(found == expected);
        compared += std::ssize(found);
      }
    }
  CHECK(compared > 10000);
}

TEST_CASE("box_runs: five axes, from any offset on") {
  using AxisCut = BoxRuns::AxisCut;
  const std::array<AxisCut, 5> axes{AxisCut{3, 1, 3}, AxisCut{2, 0, 1}, AxisCut{4, 1, 3},
                                    AxisCut{3, 1, 2}, AxisCut{2, 0, 2}};
  std::vector<std::int64_t> expected;  // offsets, in order
  for (std::int64_t i = 0; i < 3 * 2 * 4 * 3 * 2; ++i) {
    std::int64_t rest = i;
    bool inside = true;
    for (std::size_t a = 5; a-- > 0; rest /= axes[a].extent) {
      const std::int64_t place = rest % axes[a].extent;
      inside = inside && place >= axes[a].lo && place < axes[a].hi;
    }
    if (inside) expected.push_back(i);
  }
  REQUIRE(expected.size() == 8);
  for (std::int64_t lo = 0; lo < 150; ++lo) {
    std::vector<std::int64_t> found;
    const auto first = std::lower_bound(expected.begin(), expected.end(), lo);
    BoxRuns(axes).each(lo, 150, [&](std::int64_t a, std::int64_t b, std::int64_t at) {
      CHECK(at == first - expected.begin() + std::ssize(found));
      for (std::int64_t i = a; i < b; ++i) found.push_back(i);
    });
    CHECK(found == std::vector<std::int64_t>(first, expected.end()));
  }
}

}  // namespace
}  // namespace halomesh
