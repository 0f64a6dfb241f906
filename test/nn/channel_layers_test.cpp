// SPDX-License-Identifier: Apache-2.0
// Layers with one number per channel (affine, global average) on any cut against naive loops.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "error.hpp"
#include "src/nn/layers/affine.hpp"
#include "src/nn/layers/global_average.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/layer_check.hpp"

namespace halomesh {
namespace {

constexpr PartGrid kGrids[] = {{1, 1, 1}, {3, 1, 1}, {1, 2, 1}, {1, 1, 4}, {2, 2, 2}, {9, 1, 2}};
constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBfloat16};
constexpr Shape kShape{5, 7, 4, 6};

template <class MakeLayer>
LayerCase channel_case(const MakeLayer& make, const Reference& reference, DataType type) {
  LayerCase test;
  test.name = fmt::format("{}", make()->kernel_name());
  test.make_layer = make;
  test.cut.src_shapes = {kShape};
  test.cut.src_types = {type};
  test.cut.batch = 2;
  test.reference = reference;
  test.linear = true;
  test.repeat = true;
  if (type == DataType::kBfloat16) {
    test.reference = in_bfloat16(reference, 1, 1);
    test.src_value = test.diff_value = [](float v) { return static_cast<float>(Bfloat16(v)); };
  }
  return test;
}

Reference affine_reference() {
  return [](const ReferenceInput& in) {
    const GlobalTensor &x = in.src[0], &y = in.diff_dst;
    ReferenceOutput out{Estimate(y.values.size()), {Estimate(x.values.size())}, {}};
    const auto channels = static_cast<std::size_t>(x.shape.c);
    out.diff_parameters = {Estimate(channels), Estimate(channels)};
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      const std::size_t c = i % channels;
      out.dst.add(i, in.parameters[0][c], x.values[i]);
      out.dst.add(i, in.parameters[1][c]);
      out.diff_src[0].add(i, in.parameters[0][c], y.values[i]);
      out.diff_parameters[0].add(c, x.values[i], y.values[i]);
      out.diff_parameters[1].add(c, y.values[i]);
    }
    out.dst.terms = 2;
    out.diff_src[0].terms = 1;
    // Sums in double, each rounded once, and one addition per part.
    for (Estimate& diff : out.diff_parameters) diff.terms = 2 * 18;
    return out;
  };
}

TEST_CASE("an affine layer scales and shifts each channel on any cut") {
  for (const DataType type : kTypes) {
    const auto make = [type] { return std::make_unique<Affine>(type); };
    LayerCase test = channel_case(make, affine_reference(), type);
    expect_on_all_cuts(test, kGrids);
    test.cut.grid = {2, 1, 1};
    test.cut.src_owned = {channel_blocks(kShape, {4, 5})};
    test.cut.dst_owned = channel_blocks(kShape, {1, 5});
    for (const bool spans_all : {true, false}) {
      test.cut.dst_spans_all_channels = spans_all;
      CHECK(expect_layer(test).moved > 0);
    }
  }
  const Affine layer;
  const std::vector<Shape> src{kShape}, two{kShape, kShape};
  CHECK(layer.parameters(src)[0].initial.kind == InitialValues::Kind::kConstant);
  CHECK(layer.parameters(src)[0].initial.constant == 1.0F);
  CHECK_THROWS_AS(layer.dst_shape(two), Error);
  const std::vector<DataType> half{DataType::kBfloat16};
  CHECK_THROWS_WITH_AS(layer.dst_type(half), doctest::Contains("given bf16"), Error);
}

Reference average_reference() {
  return [](const ReferenceInput& in) {
    const GlobalTensor &x = in.src[0], &y = in.diff_dst;
    ReferenceOutput out{Estimate(y.values.size()), {Estimate(x.values.size())}, {}};
    const auto channels = static_cast<std::size_t>(x.shape.c);
    const auto volume = static_cast<std::size_t>(x.shape.volume());
    const double weight = static_cast<double>(channels) / static_cast<double>(volume);
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      const std::size_t at = i / volume * channels + i % channels;
      out.dst.add(at, x.values[i], weight);
      out.diff_src[0].add(i, y.values[at], weight);
    }
    // Sums in double, each rounded once, and one addition per part; the weight and a product.
    out.dst.terms = 2 * 18;
    out.diff_src[0].terms = 2;
    return out;
  };
}

TEST_CASE("a global average is the mean over all parts on any cut") {
  for (const DataType type : kTypes) {
    const auto make = [type] { return std::make_unique<GlobalAverage>(type); };
    LayerCase test = channel_case(make, average_reference(), type);
    expect_on_all_cuts(test, kGrids);
    // Parts that hold some channels, and a part that holds nothing.
    test.cut.grid = {3, 1, 1};
    Partition owned = channel_blocks(kShape, {2, 5});
    owned.emplace_back();
    test.cut.src_owned = {owned};
    CHECK(expect_layer(test).moved > 0);
  }
  const GlobalAverage layer;
  const std::vector<Shape> src{kShape}, two{kShape, kShape};
  CHECK(layer.dst_shape(src) == Shape{5, 1, 1, 1});
  CHECK_THROWS_AS(layer.dst_shape(two), Error);
  const std::vector<DataType> half{DataType::kBfloat16};
  CHECK_THROWS_WITH_AS(layer.dst_type(half), doctest::Contains("given bf16"), Error);
  CHECK(GlobalAverage(DataType::kBfloat16).dst_type(half) == DataType::kFloat32);
}

}  // namespace
}  // namespace halomesh
