// SPDX-License-Identifier: Apache-2.0
// Sliding windows against literal tables: extents, planes read, padding.
#include "partition/window.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "error.hpp"

namespace halomesh {
namespace {

struct ExtentRow {
  AxisWindow window;  // kernel, stride, dilation, before, after
  std::int64_t src, dst;
};

TEST_CASE("output extents") {
  const std::vector<ExtentRow> rows = {
      {{1, 1, 1, 0, 0}, 5, 5},  {{2, 1, 1, 0, 1}, 5, 5}, {{2, 1, 1, 0, 0}, 5, 4},
      {{3, 1, 1, 1, 1}, 5, 5},  {{3, 2, 1, 1, 1}, 5, 3}, {{3, 2, 1, 0, 0}, 6, 2},
      {{2, 2, 1, 0, 0}, 5, 2},  {{3, 1, 2, 2, 2}, 5, 5}, {{3, 1, 2, 0, 0}, 5, 1},
      {{2, 2, 1, 0, 0}, 1, 0},  {{5, 1, 1, 0, 0}, 4, 0}, {{3, 3, 1, 0, 0}, 9, 3},
      {{3, 3, 1, 0, 0}, 11, 3}, {{1, 2, 1, 0, 0}, 4, 2}, {{4, 1, 1, 3, 0}, 1, 1},
  };
  for (const ExtentRow& row : rows) {
    CAPTURE(row.window.kernel);
    CAPTURE(row.window.stride);
    CHECK(row.window.dst_extent(row.src) == row.dst);
  }
  CHECK(rows.size() == 15);
}

struct SameRow {
  std::int64_t kernel, stride, dilation, src, before, after;
};

TEST_CASE("TensorFlow's SAME: the smaller half of the padding comes before") {
  const std::vector<SameRow> rows = {
      {1, 1, 1, 8, 0, 0}, {2, 1, 1, 8, 0, 1}, {3, 1, 1, 8, 1, 1}, {4, 1, 1, 8, 1, 2},
      {5, 1, 1, 8, 2, 2}, {2, 2, 1, 8, 0, 0}, {2, 2, 1, 7, 0, 1}, {3, 2, 1, 8, 0, 1},
      {3, 2, 1, 7, 1, 1}, {3, 1, 2, 8, 2, 2}, {2, 1, 3, 8, 1, 2}, {1, 3, 1, 8, 0, 0},
      {2, 1, 1, 1, 0, 1}, {2, 4, 1, 8, 0, 0},
  };
  for (const SameRow& row : rows) {
    CAPTURE(row.kernel);
    CAPTURE(row.stride);
    CAPTURE(row.src);
    const AxisWindow window = same_window(row.kernel, row.stride, row.dilation, row.src);
    CHECK(window.pad_before == row.before);
    CHECK(window.pad_after == row.after);
    CHECK(window.dst_extent(row.src) == (row.src + row.stride - 1) / row.stride);
  }
  CHECK(rows.size() == 14);
}

struct ReadRow {
  AxisWindow window;
  Range dst, src;
};

TEST_CASE("planes that a range of output planes reads, padding included") {
  const std::vector<ReadRow> rows = {
      {{1, 1, 1, 0, 0}, {3, 5}, {3, 5}},
      {{2, 1, 1, 0, 1}, {3, 5}, {3, 6}},   // kernel 2: one plane after only
      {{3, 1, 1, 1, 1}, {3, 5}, {2, 6}},   // kernel 3: one on each side
      {{3, 1, 1, 1, 1}, {0, 1}, {-1, 2}},  // leaves the tensor: padding
      {{2, 2, 1, 0, 0}, {3, 5}, {6, 10}},  // pooling
      {{3, 2, 1, 1, 1}, {3, 5}, {5, 10}},  // overlapping
      {{1, 3, 1, 0, 0}, {3, 5}, {9, 13}},  // with gaps
      {{3, 1, 2, 2, 2}, {3, 4}, {1, 6}},   // dilated
      {{4, 1, 1, 3, 0}, {2, 3}, {-1, 3}},  // one-sided, before
      {{3, 1, 1, 1, 1}, {4, 4}, {0, 0}},   // empty
  };
  for (const ReadRow& row : rows) {
    CAPTURE(row.window.kernel);
    CAPTURE(row.dst.lo);
    CHECK(row.window.reads(row.dst) == row.src);
  }
  CHECK(rows.size() == 10);
}

TEST_CASE("a block needs all channels of the planes it reads, clamped to the tensor") {
  const Shape src{4, 16, 16, 16};
  const Window window{AxisWindow{2, 1, 1, 0, 1}, AxisWindow{3, 1, 1, 1, 1},
                      AxisWindow{1, 1, 1, 0, 0}};
  CHECK(needed_box(window, Box{{0, 4, 4, 0}, {8, 8, 8, 16}}, src) ==
        Box{{0, 4, 3, 0}, {4, 9, 9, 16}});
  CHECK(needed_box(window, Box{{0, 12, 0, 5}, {8, 16, 4, 6}}, src) ==
        Box{{0, 12, 0, 5}, {4, 16, 5, 6}});
  // Output channels make no difference to the planes.
  CHECK(needed_box(window, Box{{6, 4, 4, 0}, {8, 8, 8, 16}}, src) ==
        Box{{0, 4, 3, 0}, {4, 9, 9, 16}});
  CHECK(needed_box(window, Box{}, src) == Box{});
}

TEST_CASE("a block sees padding only where it lies at the tensor's border") {
  const Shape src{1, 8, 8, 8};
  const Window window{AxisWindow{3, 1, 1, 1, 1}, AxisWindow{2, 1, 1, 0, 1},
                      AxisWindow{5, 1, 1, 2, 2}};
  const BlockPadding inner = block_padding(window, Box{{0, 2, 2, 2}, {1, 4, 4, 4}}, src);
  CHECK(inner.before == Spatial{0, 0, 0});
  CHECK(inner.after == Spatial{0, 0, 0});
  const BlockPadding low = block_padding(window, Box{{0, 0, 0, 0}, {1, 4, 4, 1}}, src);
  CHECK(low.before == Spatial{1, 0, 2});
  CHECK(low.after == Spatial{0, 0, 0});
  const BlockPadding high = block_padding(window, Box{{0, 4, 4, 7}, {1, 8, 8, 8}}, src);
  CHECK(high.before == Spatial{0, 0, 0});
  CHECK(high.after == Spatial{1, 1, 2});
}

TEST_CASE("invalid windows are refused") {
  const Spatial src{8, 8, 8};
  const AxisWindow fine{1, 1, 1, 0, 0};
  for (const AxisWindow& bad :
       {AxisWindow{0, 1, 1, 0, 0}, AxisWindow{1, 0, 1, 0, 0}, AxisWindow{1, 1, 0, 0, 0},
        AxisWindow{3, 1, 1, 3, 0}, AxisWindow{3, 1, 1, 0, 3}, AxisWindow{3, 1, 1, -1, 0},
        AxisWindow{9, 1, 1, 0, 0}, AxisWindow{5, 1, 2, 0, 0}})
    for (std::size_t axis = 0; axis < 3; ++axis) {
      Window window{fine, fine, fine};
      window[axis] = bad;
      CHECK_THROWS_AS(dst_extents(window, src), Error);
    }
  CHECK(dst_extents({fine, AxisWindow{2, 2, 1, 0, 0}, AxisWindow{3, 1, 1, 1, 1}}, src) ==
        Spatial{8, 4, 8});
}

}  // namespace
}  // namespace halomesh
