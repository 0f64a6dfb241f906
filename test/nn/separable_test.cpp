// SPDX-License-Identifier: Apache-2.0
// Layers that are a matrix along each axis (resize, padding) on any cut against naive loops.
#include "src/nn/layers/separable.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "error.hpp"
#include "src/nn/layers/pad.hpp"
#include "src/nn/layers/resize.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/layer_check.hpp"

namespace halomesh {
namespace {

constexpr PartGrid kGrids[] = {{1, 1, 1}, {3, 1, 1}, {1, 2, 1}, {1, 1, 4}, {2, 2, 2}, {9, 1, 2}};
constexpr Shape kShape{5, 7, 4, 6};

// The weight of plane `src` of `n` in plane `dst` of `m` along an axis.
using Weight = std::function<double(std::size_t axis, std::int64_t dst, std::int64_t src)>;

// All pairs of elements. `outside` is where no element of src has a weight along some axis.
Reference matrix_reference(const Weight& weight, double outside = 0) {
  return [=](const ReferenceInput& in) {
    const GlobalTensor &x = in.src[0], &y = in.diff_dst;
    ReferenceOutput out{Estimate(y.values.size()), {Estimate(x.values.size())}, {}};
    const auto for_each = [](const GlobalTensor& t, const auto& visit) {
      for (std::int64_t d = 0; d < t.shape.d; ++d)
        for (std::int64_t h = 0; h < t.shape.h; ++h)
          for (std::int64_t w = 0; w < t.shape.w; ++w) visit(d, h, w);
    };
    for_each(y, [&](auto d, auto h, auto w) {
      bool inside = false;
      for_each(x, [&](auto i, auto j, auto k) {
        const double product = weight(0, d, i) * weight(1, h, j) * weight(2, w, k);
        if (product == 0) return;
        inside = true;
        for (std::int64_t n = 0; n < y.batch; ++n)
          for (std::int64_t c = 0; c < y.shape.c; ++c) {
            const std::size_t from = x.offset(n, c, i, j, k), to = y.offset(n, c, d, h, w);
            out.dst.add(to, x.values[from], product);
            out.diff_src[0].add(from, y.values[to], product);
          }
      });
      for (std::int64_t n = 0; n < y.batch && !inside; ++n)
        for (std::int64_t c = 0; c < y.shape.c; ++c)
          out.dst.values[y.offset(n, c, d, h, w)] = outside;
    });
    // A rounded weight and product each, and their sums over up to 8 elements of src, or 5^3 of
    // dst and as many parts as share them.
    out.dst.terms = 16;
    out.diff_src[0].terms = 2 + 125 + 18;
    return out;
  };
}

void expect_separable(const std::function<std::unique_ptr<Layer>(DataType)>& make,
                      const Reference& expected, const Shape& src = kShape, bool linear = true) {
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    LayerCase test;
    test.make_layer = [=] { return make(type); };
    test.name = make(type)->kernel_name();
    test.cut.src_shapes = {src};
    test.cut.src_types = {type};
    test.cut.batch = 2;
    test.reference = expected;
    test.linear = linear;
    test.repeat = true;
    if (type == DataType::kBfloat16) {
      test.reference = in_bfloat16(expected, 1, 36);
      test.src_value = test.diff_value = [](float v) { return static_cast<float>(Bfloat16(v)); };
    }
    expect_on_all_cuts(test, kGrids);
    const Shape dst = make(type)->dst_shape(test.cut.src_shapes);
    test.cut.grid = {2, 1, 1};
    test.cut.src_owned = {channel_blocks(src, {4, 5})};
    test.cut.dst_owned = channel_blocks(dst, {1, 5});
    CHECK(expect_layer(test).moved > 0);
    // Two parts of very different size.
    Box low = Box::whole(dst), high = low;
    low.hi[kW] = high.lo[kW] = 1;
    test.cut.src_owned.clear();
    test.cut.dst_owned = {low, high};
    CHECK(expect_layer(test).moved > 0);
  }
}

// The coordinates as the operator's definition has them.
double source_of(ResizeCoordinates kind, double o, double n, double m, double scale) {
  switch (kind) {
    case ResizeCoordinates::kHalfPixel:
      return (o + 0.5) / scale - 0.5;
    case ResizeCoordinates::kPytorchHalfPixel:
      return m > 1 ? (o + 0.5) / scale - 0.5 : 0;
    case ResizeCoordinates::kAlignCorners:
      return m == 1 ? 0 : o * (n - 1) / (m - 1);
    case ResizeCoordinates::kAsymmetric:
      break;
  }
  return o / scale;
}

double rounded(ResizeRounding rounding, double x) {
  switch (rounding) {
    case ResizeRounding::kPreferFloor:
      return std::ceil(x - 0.5);
    case ResizeRounding::kPreferCeil:
      return std::floor(x + 0.5);
    case ResizeRounding::kCeil:
      return std::ceil(x);
    case ResizeRounding::kFloor:
      break;
  }
  return std::floor(x);
}

Weight resize_weight(const ResizeOptions& o, const Shape& src, const Shape& dst) {
  return [=](std::size_t axis, std::int64_t to, std::int64_t from) {
    const auto n = static_cast<double>(src.spatial()[axis]),
               m = static_cast<double>(dst.spatial()[axis]);
    const double scale = o.scales[axis] > 0 ? o.scales[axis] : m / n;
    double x = source_of(o.coordinates, static_cast<double>(to), n, m, scale);
    if (o.mode == ResizeMode::kNearest) x = rounded(o.rounding, x);
    x = std::clamp(x, 0.0, n - 1);
    return std::max(0.0, 1 - std::abs(x - static_cast<double>(from)));
  };
}

// Larger, smaller, equal and rounded extents.
std::vector<ResizeOptions> resize_cases() {
  std::vector<ResizeOptions> cases;
  using C = ResizeCoordinates;
  for (const C coordinates :
       {C::kHalfPixel, C::kPytorchHalfPixel, C::kAlignCorners, C::kAsymmetric}) {
    cases.push_back({{14, 8, 12}, {}, ResizeMode::kLinear, coordinates});
    cases.push_back({{3, 1, 17}, {}, ResizeMode::kLinear, coordinates});
    cases.push_back({{}, {1.5, 0.75, 1}, ResizeMode::kLinear, coordinates});
  }
  for (const ResizeRounding r : {ResizeRounding::kPreferFloor, ResizeRounding::kPreferCeil,
                                 ResizeRounding::kFloor, ResizeRounding::kCeil}) {
    cases.push_back({{14, 8, 5}, {}, ResizeMode::kNearest, C::kHalfPixel, r});
    cases.push_back({{15, 9, 13}, {2, 2, 2}, ResizeMode::kNearest, C::kAsymmetric, r});
  }
  return cases;
}

TEST_CASE("a resize interpolates as the operator's definition says on any cut") {
  const std::vector<Shape> src{kShape};
  for (const ResizeOptions& o : resize_cases()) {
    const auto make = [o](DataType type) {
      ResizeOptions typed = o;
      typed.type = type;
      return std::make_unique<Resize>(typed);
    };
    expect_separable(make, matrix_reference(resize_weight(o, kShape, Resize(o).dst_shape(src))));
  }
  CHECK(Resize({{}, {1.5, 0.75, 1}}).dst_shape(src) == Shape{5, 10, 3, 6});
  const Resize twice({{}, {2, 2, 2}});
  CHECK(twice.needs(Box{{1, 4, 0, 3}, {3, 8, 8, 4}}, 0, src) == Box{{1, 1, 0, 1}, {3, 5, 4, 3}});
  CHECK_THROWS_AS(Resize(ResizeOptions{}), Error);
  CHECK_THROWS_AS(Resize(ResizeOptions{{-1, 2, 2}}), Error);
  CHECK_THROWS_AS(Resize({{}, {0.1, 1, 1}}).dst_shape(src), Error);
}

TEST_CASE("a padding repeats, reflects, wraps or adds a constant on any cut") {
  const auto source = [](PadMode mode, std::int64_t i, std::int64_t n) {
    while (i < 0 || i >= n) {
      if (mode == PadMode::kConstant) return std::int64_t{-1};
      if (mode == PadMode::kEdge) i = i < 0 ? 0 : n - 1;
      if (mode == PadMode::kReflect) i = i < 0 ? -i : 2 * (n - 1) - i;
      if (mode == PadMode::kWrap) i += i < 0 ? n : -n;
    }
    return i;
  };
  const Shape shape{5, 3, 4, 2};
  for (const PadMode mode : {PadMode::kConstant, PadMode::kEdge, PadMode::kReflect, PadMode::kWrap})
    for (const auto& [before, after] :
         {std::pair{Spatial{1, 0, 2}, Spatial{0, 2, 1}}, {Spatial{4, 0, 0}, Spatial{7, 0, 0}}}) {
      const auto make = [=, before = before, after = after](DataType type) {
        return std::make_unique<Pad>(PadOptions{before, after, mode, -1.5F, type});
      };
      const auto weight = [=, before = before](std::size_t a, std::int64_t dst, std::int64_t src) {
        return source(mode, dst - before[a], shape.spatial()[a]) == src ? 1.0 : 0.0;
      };
      expect_separable(make, matrix_reference(weight, -1.5), shape, mode != PadMode::kConstant);
    }
  const std::vector<Shape> src{kShape}, flat{{1, 1, 4, 4}};
  CHECK(Pad({{1, 0, 2}, {0, 2, 1}}).dst_shape(src) == Shape{5, 8, 6, 9});
  CHECK(Pad({{3, 0, 0}, {}}).needs(Box{{0, 0, 0, 0}, {1, 2, 4, 6}}, 0, src).empty());
  CHECK_THROWS_AS(Pad({{0, -1, 0}, {}}), Error);
  CHECK_THROWS_AS(Pad({{1, 0, 0}, {}, PadMode::kReflect}).dst_shape(flat), Error);
}

}  // namespace
}  // namespace halomesh
