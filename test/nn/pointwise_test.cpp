// SPDX-License-Identifier: Apache-2.0
// Pointwise layers on any cut against naive loops in double precision; dropout's mask.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "error.hpp"
#include "src/nn/layers/add.hpp"
#include "src/nn/layers/dropout.hpp"
#include "src/nn/layers/leaky_relu.hpp"
#include "src/nn/layers/scaled_tanh.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/layer_check.hpp"

namespace halomesh {
namespace {

constexpr PartGrid kGrids[] = {{1, 1, 1}, {3, 1, 1}, {1, 2, 1}, {1, 1, 4}, {2, 2, 2}, {7, 1, 2}};
constexpr Shape kShape{3, 5, 4, 6};

// The function of one element and its derivative, each with the magnitude that bounds rounding.
struct Value {
  double value, magnitude;
};
struct Function {
  std::function<Value(double)> apply, derivative;
  double terms;
};

Reference reference(const Function& f) {
  return [f](const ReferenceInput& in) {
    ReferenceOutput out;
    const std::size_t size = in.src[0].values.size();
    out.dst = Estimate(size);
    out.diff_src.emplace_back(size);
    for (std::size_t i = 0; i < size; ++i) {
      const double x = in.src[0].values[i], dy = in.diff_dst.values[i];
      const Value y = f.apply(x), slope = f.derivative(x);
      out.dst.values[i] = y.value;
      out.dst.magnitudes[i] = y.magnitude;
      out.diff_src[0].values[i] = slope.value * dy;
      out.diff_src[0].magnitudes[i] = slope.magnitude * std::abs(dy);
    }
    out.dst.terms = out.diff_src[0].terms = f.terms;
    return out;
  };
}

LayerCase make_case(const std::string& name, std::function<std::unique_ptr<Layer>()> make,
                    const Reference& expected, const PartGrid& grid) {
  LayerCase test;
  test.name = fmt::format("{} on {}", name, to_string(grid));
  test.make_layer = std::move(make);
  test.cut.src_shapes = {kShape};
  test.cut.grid = grid;
  test.cut.batch = 2;
  test.reference = expected;
  test.repeat = true;
  return test;
}

void expect_on_all_cuts(LayerCase test) {
  for (const PartGrid& grid : kGrids) {
    test.cut.grid = grid;
    expect_layer(test);
  }
  test.cut.src_margin = {1, 0, 2};
  test.cut.dst_margin = {0, 1, 1};
  expect_layer(test);
  // A cut through the channels: rows of pixels are no longer contiguous runs.
  const Partition halves{Box{{0, 0, 0, 0}, {1, 5, 4, 6}}, Box{{1, 0, 0, 0}, {3, 5, 4, 6}}};
  const Partition other{Box{{0, 0, 0, 0}, {2, 5, 4, 6}}, Box{{2, 0, 0, 0}, {3, 5, 4, 6}}};
  test.cut.src_owned.assign(test.cut.src_shapes.size(), other);
  test.cut.dst_owned = halves;
  test.cut.src_margin = test.cut.dst_margin = {};
  CHECK(expect_layer(test).moved > 0);
}

// Two roundings at most: the slope as a float is not the decimal number, so it is one of them.
Function leaky(double slope) {
  const auto both = [slope](double x, double scale) {
    const double v = x > 0 ? scale : slope * scale;
    return Value{v, x > 0 ? 0 : std::abs(v)};
  };
  return {[both](double x) { return both(x, x); }, [both](double x) { return both(x, 1); }, 2};
}

TEST_CASE("leaky ReLU equals its formula on any cut") {
  for (float slope : {0.3f, 0.0f, 1.0f}) {
    const double exact = slope == 0.3f ? 0.3 : static_cast<double>(slope);
    LayerCase test = make_case(
        fmt::format("leaky ReLU {:g}", slope),
        [slope] { return std::make_unique<LeakyRelu>(slope); }, reference(leaky(exact)), kGrids[0]);
    expect_on_all_cuts(test);
    test.src_value = [](float v) { return v < 0.5f ? 0.0f : v; };  // zero counts as not positive
    expect_on_all_cuts(test);
    test.cut.training = false;
    expect_on_all_cuts(test);
  }
  LayerCase half = make_case(
      "leaky ReLU in bf16", [] { return std::make_unique<LeakyRelu>(0.25F, DataType::kBfloat16); },
      reference(leaky(0.25)), kGrids[0]);
  half.cut.src_types = {DataType::kBfloat16};
  half.src_value = half.diff_value = [](float v) { return static_cast<float>(Bfloat16(v)); };
  expect_on_all_cuts(half);  // a quarter of a bf16 is one: nothing is rounded
  const std::vector<DataType> single{DataType::kFloat32};
  CHECK_THROWS_WITH_AS(LeakyRelu(0.0F, DataType::kBfloat16).dst_type(single),
                       doctest::Contains("leaky ReLU of bf16 given fp32"), Error);
  CHECK_THROWS_AS(LeakyRelu(-0.1f), Error);
  CHECK_THROWS_AS(LeakyRelu{std::nanf("")}, Error);
}

// Forward: tanhf is accurate to 2 ulp (glibc manual, "Errors in Math Functions"), i.e. 4 units of
// 2^-24, plus the rounded scale and product. Backward: scale - y * y / scale cancels, so that the
// bound is on scale * (1 + tanh^2): y^2 has twice y's error, then inverse, two products and the
// difference, and the product with dy: 2 * 6 + 6 units at most.
Function scaled_tanh(double scale) {
  return {[scale](double x) {
            const double y = scale * std::tanh(x);
            return Value{y, std::abs(y)};
          },
          [scale](double x) {
            const double t = std::tanh(x);
            return Value{scale * (1 - t * t), std::abs(scale) * (1 + t * t)};
          },
          18};
}

TEST_CASE("scaled tanh equals its formula on any cut") {
  for (float scale : {1.2f, -0.5f}) {
    LayerCase test = make_case(
        fmt::format("tanh {:g}", scale), [scale] { return std::make_unique<ScaledTanh>(scale); },
        reference(scaled_tanh(static_cast<double>(scale))), kGrids[0]);
    expect_on_all_cuts(test);
    test.src_value = [](float v) { return 20 * v; };  // saturated
    expect_on_all_cuts(test);
  }
  CHECK_THROWS_AS(ScaledTanh(0.0f), Error);
}

TEST_CASE("scaled tanh's derivative is the difference quotient of its output") {
  // In double the centred quotient with step h = 2^-17 is off by h^2 / 6 * |f'''| < 2^-35 * 2.4.
  const Function f = scaled_tanh(1.2);
  int compared = 0;
  for (double x = -3; x <= 3; x += 0.125, ++compared) {
    const double h = 0x1p-17;
    const double quotient = (f.apply(x + h).value - f.apply(x - h).value) / (2 * h);
    CHECK(std::abs(quotient - f.derivative(x).value) < 1e-10);
  }
  CHECK(compared == 49);
}

Reference sum_reference() {
  return [](const ReferenceInput& in) {
    ReferenceOutput out;
    out.dst = Estimate(in.diff_dst.values.size());
    out.dst.terms = static_cast<double>(in.src.size());
    for (const GlobalTensor& src : in.src) {
      Estimate& diff = out.diff_src.emplace_back(src.values.size());
      for (std::size_t i = 0; i < src.values.size(); ++i) {
        out.dst.add(i, src.values[i]);
        diff.values[i] = in.diff_dst.values[i];  // copied: equal
      }
    }
    return out;
  };
}

TEST_CASE("a sum adds its inputs on any cut and gives each the whole gradient") {
  for (std::size_t inputs : {2u, 3u}) {
    LayerCase test = make_case(
        fmt::format("sum of {}", inputs), [] { return std::make_unique<Add>(); }, sum_reference(),
        kGrids[0]);
    test.cut.src_shapes.assign(inputs, kShape);
    expect_on_all_cuts(test);
    test.make_layer = [] { return std::make_unique<Add>(DataType::kBfloat16); };
    test.cut.src_types.assign(inputs, DataType::kBfloat16);
    test.reference = in_bfloat16(sum_reference(), static_cast<double>(inputs - 1), 0);
    test.src_value = test.diff_value = [](float v) { return static_cast<float>(Bfloat16(v)); };
    expect_on_all_cuts(test);
  }
  const Add add;
  const std::vector<DataType> mixed{DataType::kFloat32, DataType::kBfloat16};
  CHECK_THROWS_WITH_AS(add.dst_type(mixed), doctest::Contains("sum of fp32 given bf16"), Error);
  CHECK_THROWS_AS(add.dst_shape(std::vector<Shape>{kShape}), Error);
  CHECK_THROWS_AS(add.dst_shape(std::vector<Shape>{kShape, {3, 5, 4, 7}}), Error);
}

TEST_CASE("layers with one input refuse several") {
  const std::vector<Shape> two{kShape, kShape};
  CHECK_THROWS_AS(LeakyRelu().dst_shape(two), Error);
  CHECK_THROWS_AS(Dropout(0.5).dst_shape(two), Error);
  CHECK_THROWS_AS(ScaledTanh().dst_shape(two), Error);
}

}  // namespace
}  // namespace halomesh
