// SPDX-License-Identifier: Apache-2.0
// Layers that only move elements (concatenation, crop, tile) on any cut against naive loops.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "error.hpp"
#include "src/nn/layers/concat.hpp"
#include "src/nn/layers/crop.hpp"
#include "src/nn/layers/tile.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/layer_check.hpp"

namespace halomesh {
namespace {

constexpr PartGrid kGrids[] = {{1, 1, 1}, {3, 1, 1}, {1, 2, 1}, {1, 1, 4}, {2, 2, 2}, {9, 1, 2}};

// The input element that an output element copies.
struct Source {
  std::size_t input;
  std::int64_t c, d, h, w;
};
using SourceOf =
    std::function<Source(std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t w)>;

// Outputs are copies: magnitude 0 demands equality. Gradients are sums of `terms` elements.
Reference copy_reference(const SourceOf& source_of, double terms) {
  return [=](const ReferenceInput& in) {
    const GlobalTensor& y = in.diff_dst;
    ReferenceOutput out;
    out.dst = Estimate(y.values.size());
    for (const GlobalTensor& src : in.src) {
      out.diff_src.emplace_back(src.values.size());
      out.diff_src.back().terms = terms;
    }
    for (std::int64_t n = 0; n < y.batch; ++n)
      for (std::int64_t d = 0; d < y.shape.d; ++d)
        for (std::int64_t h = 0; h < y.shape.h; ++h)
          for (std::int64_t w = 0; w < y.shape.w; ++w)
            for (std::int64_t c = 0; c < y.shape.c; ++c) {
              const Source s = source_of(c, d, h, w);
              const std::size_t from = in.src[s.input].offset(n, s.c, s.d, s.h, s.w);
              const std::size_t to = y.offset(n, c, d, h, w);
              out.dst.values[to] = in.src[s.input].values[from];
              out.diff_src[s.input].add(from, y.values[to]);
            }
    if (terms <= 1)
      for (Estimate& diff : out.diff_src) diff.magnitudes.assign(diff.magnitudes.size(), 0.0);
    return out;
  };
}

LayerCase copy_case(const std::string& name, std::function<std::unique_ptr<Layer>(DataType)> make,
                    const std::vector<Shape>& src, const SourceOf& source_of, DataType type,
                    double terms = 1) {
  LayerCase test;
  test.name = fmt::format("{} {}", name, name_of(type));
  test.make_layer = [=] { return make(type); };
  test.cut.src_shapes = src;
  test.cut.src_types.assign(src.size(), type);
  test.cut.batch = 2;
  test.reference = copy_reference(source_of, terms);
  test.linear = terms > 1;  // copies are equal, and have no bound
  test.repeat = true;
  if (type == DataType::kBfloat16)
    test.src_value = test.diff_value = [](float v) { return static_cast<float>(Bfloat16(v)); };
  return test;
}

// All grids, wider spans, and outputs that are cut through the channels; the elements moved.
std::int64_t expect_on_all_cuts(LayerCase test) {
  std::int64_t moved = 0;
  for (const PartGrid& grid : kGrids) {
    test.cut.grid = grid;
    moved += expect_layer(test).moved;
  }
  test.cut.src_margin = {1, 0, 2};
  test.cut.dst_margin = {0, 1, 1};
  moved += expect_layer(test).moved;
  test.cut.src_margin = test.cut.dst_margin = {};
  test.cut.grid = {2, 1, 1};
  Box low = Box::whole(test.make_layer()->dst_shape(test.cut.src_shapes)), high = low;
  low.hi[kC] = high.lo[kC] = 2;
  test.cut.dst_owned = {low, high};
  return moved + expect_layer(test).moved;
}

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBfloat16};

TEST_CASE("a concatenation puts the channels of its inputs one after the other on any cut") {
  const std::vector<Shape> src{{3, 5, 4, 6}, {1, 5, 4, 6}, {2, 5, 4, 6}};
  const auto source_of = [](std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t w) {
    if (c < 3) return Source{0, c, d, h, w};
    return c < 4 ? Source{1, 0, d, h, w} : Source{2, c - 4, d, h, w};
  };
  const auto make = [](DataType type) { return std::make_unique<Concat>(type); };
  for (const DataType type : kTypes)
    CHECK(expect_on_all_cuts(copy_case("concat", make, src, source_of, type)) > 0);
  const Concat layer;
  CHECK(layer.needs(Box{{2, 0, 1, 2}, {5, 5, 4, 6}}, 0, src) == Box{{2, 0, 1, 2}, {3, 5, 4, 6}});
  CHECK(layer.needs(Box{{2, 0, 1, 2}, {5, 5, 4, 6}}, 2, src) == Box{{0, 0, 1, 2}, {1, 5, 4, 6}});
  CHECK(layer.needs(Box{{0, 0, 0, 0}, {3, 5, 4, 6}}, 1, src).empty());
  const std::vector<Shape> one{{3, 5, 4, 6}}, other{{3, 5, 4, 6}, {1, 5, 4, 7}};
  CHECK_THROWS_WITH_AS(layer.dst_shape(one), doctest::Contains("1 inputs"), Error);
  CHECK_THROWS_WITH_AS(layer.dst_shape(other), doctest::Contains("different extents"), Error);
  const std::vector<DataType> mixed{DataType::kFloat32, DataType::kBfloat16};
  CHECK_THROWS_WITH_AS(layer.dst_type(mixed), doctest::Contains("given bf16"), Error);
}

TEST_CASE("a concatenation along an axis of space joins blocks on any cut") {
  const std::vector<Shape> src{{3, 5, 2, 6}, {3, 5, 1, 6}, {3, 5, 4, 6}};
  const auto source_of = [](std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t w) {
    if (h < 2) return Source{0, c, d, h, w};
    return h < 3 ? Source{1, c, d, 0, w} : Source{2, c, d, h - 3, w};
  };
  const auto make = [](DataType type) { return std::make_unique<Concat>(type, kH); };
  for (const DataType type : kTypes)
    CHECK(expect_on_all_cuts(copy_case("concat of rows", make, src, source_of, type)) > 0);
  const std::vector<Shape> other{{3, 5, 2, 6}, {2, 5, 2, 6}};
  CHECK_THROWS_WITH_AS(Concat(DataType::kFloat32, kH).dst_shape(other),
                       doctest::Contains("different extents"), Error);
}

TEST_CASE("a crop copies the planes and channels that are left on any cut") {
  const auto source_of = [](std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t w) {
    return Source{0, c + 1, d + 2, h, w + 1};
  };
  const auto make = [](DataType type) {
    return std::make_unique<Crop>(Crop::Planes{1, 2, 0, 1}, Crop::Planes{2, 1, 1, 0}, type);
  };
  const std::vector<Shape> src{{7, 7, 5, 6}};
  for (const DataType type : kTypes)
    CHECK(expect_on_all_cuts(copy_case("crop", make, src, source_of, type)) > 0);
  const Crop layer({1, 2, 0, 1}, {2, 1, 1, 0});
  CHECK(layer.dst_shape(src) == Shape{4, 4, 4, 5});
  CHECK(layer.needs(Box{{1, 0, 2, 3}, {2, 1, 4, 5}}, 0, src) == Box{{2, 2, 2, 4}, {3, 3, 4, 6}});
  const std::vector<Shape> small{{7, 3, 5, 6}}, two{{7, 7, 5, 6}, {7, 7, 5, 6}};
  CHECK_THROWS_WITH_AS(layer.dst_shape(small),
                       "crop of 2 planes before and 1 after of 3 along axis 1", Error);
  CHECK_THROWS_AS(layer.dst_shape(two), Error);
  CHECK_THROWS_AS(Crop({0, 0, -1, 0}, {}), Error);
}

TEST_CASE("a tile repeats one voxel on any cut and gives it the sum of all gradients") {
  const auto source_of = [](std::int64_t c, std::int64_t, std::int64_t, std::int64_t) {
    return Source{0, c, 0, 0, 0};
  };
  const auto make = [](DataType type) { return std::make_unique<Tile>(Spatial{5, 3, 4}, type); };
  const std::vector<Shape> src{{4, 1, 1, 1}};
  CHECK(expect_on_all_cuts(copy_case("tile", make, src, source_of, DataType::kFloat32, 60)) > 0);
  // In bf16 the sum of each of up to 18 parts is rounded, and each addition of one.
  CHECK(expect_on_all_cuts(
            copy_case("tile", make, src, source_of, DataType::kBfloat16, 60 + 36 * 0x1p16)) > 0);
  const Tile layer({5, 3, 4});
  CHECK(layer.needs(Box{{1, 2, 1, 0}, {3, 4, 3, 4}}, 0, src) == Box{{1, 0, 0, 0}, {3, 1, 1, 1}});
  const std::vector<Shape> large{{4, 1, 2, 1}};
  CHECK_THROWS_WITH_AS(layer.dst_shape(large), doctest::Contains("tile of an input"), Error);
  CHECK_THROWS_AS(Tile({1, 0, 1}), Error);
}

}  // namespace
}  // namespace halomesh
