// SPDX-License-Identifier: Apache-2.0
// Functions of two tensors, of which either may be repeated, on any cut against naive loops.
#include "src/nn/layers/binary.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "error.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/layer_check.hpp"

namespace halomesh {
namespace {

constexpr PartGrid kGrids[] = {{1, 1, 1}, {3, 1, 1}, {1, 2, 1}, {1, 1, 4}, {2, 2, 2}, {7, 1, 2}};
constexpr BinaryKind kKinds[] = {BinaryKind::kAdd,    BinaryKind::kSubtract, BinaryKind::kMultiply,
                                 BinaryKind::kDivide, BinaryKind::kMaximum,  BinaryKind::kMinimum};

struct Slopes {
  double value, a, b;
};

Slopes slopes_of(BinaryKind kind, double a, double b) {
  const double share = a == b ? 0.5 : a > b ? 1 : 0;
  switch (kind) {
    case BinaryKind::kAdd:
      return {a + b, 1, 1};
    case BinaryKind::kSubtract:
      return {a - b, 1, -1};
    case BinaryKind::kMultiply:
      return {a * b, b, a};
    case BinaryKind::kDivide:
      return {a / b, 1 / b, -a / (b * b)};
    case BinaryKind::kMaximum:
      return {std::max(a, b), share, 1 - share};
    case BinaryKind::kMinimum:
      break;
  }
  return {std::min(a, b), 1 - share, share};
}

Reference binary_reference(BinaryKind kind) {
  return [kind](const ReferenceInput& in) {
    const GlobalTensor &x0 = in.src[0], &x1 = in.src[1], &y = in.diff_dst;
    ReferenceOutput out{
        Estimate(y.values.size()), {Estimate(x0.values.size()), Estimate(x1.values.size())}, {}};
    const auto place = [](const GlobalTensor& x, std::int64_t n, std::int64_t c, std::int64_t d,
                          std::int64_t h, std::int64_t w) {
      const Shape& s = x.shape;
      return x.offset(n, c % s.c, d % s.d, h % s.h, w % s.w);
    };
    for (std::int64_t n = 0; n < y.batch; ++n)
      for (std::int64_t d = 0; d < y.shape.d; ++d)
        for (std::int64_t h = 0; h < y.shape.h; ++h)
          for (std::int64_t w = 0; w < y.shape.w; ++w)
            for (std::int64_t c = 0; c < y.shape.c; ++c) {
              const std::size_t a = place(x0, n, c, d, h, w), b = place(x1, n, c, d, h, w);
              const std::size_t to = y.offset(n, c, d, h, w);
              const Slopes s = slopes_of(kind, x0.values[a], x1.values[b]);
              out.dst.add(to, s.value);
              out.diff_src[0].add(a, s.a, y.values[to]);
              out.diff_src[1].add(b, s.b, y.values[to]);
            }
    if (kind <= BinaryKind::kSubtract)  // terms may cancel
      for (double& magnitude : out.dst.magnitudes) magnitude = 2;
    // A product of up to three roundings; sums in double, rounded on each part and in their sum.
    for (Estimate& diff : out.diff_src) diff.terms = 3 + 2 * 18;
    return out;
  };
}

LayerCase binary_case(BinaryKind kind, const Shape& first, const Shape& second, DataType type) {
  LayerCase test;
  test.make_layer = [=] { return std::make_unique<Binary>(kind, type); };
  test.name = fmt::format("{} of {} and {}", test.make_layer()->kernel_name(), first, second);
  test.cut.src_shapes = {first, second};
  test.cut.src_types = {type, type};
  test.cut.batch = 2;
  test.reference = binary_reference(kind);
  test.repeat = true;
  const auto rounded = [type](float v) {
    return type == DataType::kBfloat16 ? static_cast<float>(Bfloat16(v)) : v;
  };
  test.src_value = [=](float v) {
    if (kind == BinaryKind::kDivide) v += v < 0 ? -0.25F : 0.25F;
    return rounded(kind >= BinaryKind::kMaximum ? std::floor(3 * v) : v);  // with ties
  };
  test.diff_value = rounded;
  if (type == DataType::kBfloat16) test.reference = in_bfloat16(test.reference, 1, 36);
  return test;
}

TEST_CASE("a function of two tensors equals naive loops on any cut, repeated along any axes") {
  const Shape whole{5, 7, 4, 6};
  const std::vector<std::vector<Shape>> pairs{{whole, whole},        {whole, {5, 1, 1, 1}},
                                              {{5, 1, 1, 1}, whole}, {whole, {1, 7, 4, 6}},
                                              {whole, {1, 1, 1, 1}}, {{5, 1, 4, 1}, {1, 7, 4, 6}}};
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16})
    for (const BinaryKind kind : kKinds)
      for (const auto& src : pairs) {
        LayerCase test = binary_case(kind, src[0], src[1], type);
        expect_on_all_cuts(test, kGrids);
        test.cut.grid = {2, 1, 1};
        test.cut.dst_owned = channel_blocks(whole, {2, 5});
        CHECK(expect_layer(test).moved > 0);
      }
}

TEST_CASE("a function of two tensors: boxes, and what it refuses") {
  const Binary layer(BinaryKind::kMultiply);
  const Shape whole{5, 7, 4, 6};
  const std::vector<Shape> gate{whole, {5, 1, 1, 1}}, mask{{1, 7, 4, 6}, whole}, one{whole},
      other{whole, {5, 7, 4, 5}};
  CHECK(layer.needs(Box{{1, 2, 0, 3}, {3, 4, 4, 6}}, 1, gate) == Box{{1, 0, 0, 0}, {3, 1, 1, 1}});
  CHECK(layer.needs(Box{{1, 2, 0, 3}, {3, 4, 4, 6}}, 0, mask) == Box{{0, 2, 0, 3}, {1, 4, 4, 6}});
  CHECK(layer.backward_reads_src());
  CHECK(!Binary(BinaryKind::kSubtract).backward_reads_src());
  CHECK_THROWS_WITH_AS(layer.dst_shape(one), doctest::Contains("multiply of 1 inputs"), Error);
  CHECK_THROWS_AS(layer.dst_shape(other), Error);
  const std::vector<DataType> mixed{DataType::kFloat32, DataType::kBfloat16};
  CHECK_THROWS_WITH_AS(layer.dst_type(mixed), doctest::Contains("given bf16"), Error);
}

}  // namespace
}  // namespace halomesh
