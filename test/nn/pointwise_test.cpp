// SPDX-License-Identifier: Apache-2.0
// Pointwise layers on any cut against naive loops in double precision; dropout's mask.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "error.hpp"
#include "src/nn/layers/add.hpp"
#include "src/nn/layers/dropout.hpp"
#include "src/nn/layers/elementwise.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/layer_check.hpp"

namespace halomesh {
namespace {

constexpr PartGrid kGrids[] = {{1, 1, 1}, {3, 1, 1}, {1, 2, 1}, {1, 1, 4}, {2, 2, 2}, {7, 1, 2}};
constexpr Shape kShape{3, 5, 4, 6};

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
  CHECK_THROWS_AS(Elementwise(ElementFunction::leaky_relu(0)).dst_shape(two), Error);
  CHECK_THROWS_AS(Dropout(0.5).dst_shape(two), Error);
}

}  // namespace
}  // namespace halomesh
