// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions on any cut equal a serial fp64 convolution with one group per channel.
#include "src/nn/layers/depthwise_convolution.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "error.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/layer_check.hpp"
#include "test/harness/transposed_convolution_reference.hpp"

namespace halomesh {
namespace {

constexpr PartGrid kGrids[] = {{1, 1, 1}, {3, 1, 1}, {1, 2, 1}, {1, 1, 4}, {2, 2, 2}, {9, 1, 2}};

LayerCase depthwise_case(const DepthwiseOptions& options, const Shape& src, const PartGrid& grid) {
  LayerCase test;
  test.name = fmt::format("{} of {} on {}", DepthwiseConvolution(options).kernel_name(), src,
                          to_string(grid));
  test.make_layer = [options] { return std::make_unique<DepthwiseConvolution>(options); };
  test.cut.src_shapes = {src};
  test.cut.src_types = {options.type};
  test.cut.grid = grid;
  test.cut.batch = 2;
  test.reference = convolution_reference(options.window.resolve(src.spatial()), src.c);
  test.linear = true;
  test.repeat = true;
  if (options.type == DataType::kBfloat16) {
    test.reference = in_bfloat16(test.reference, 1, 2.0 * static_cast<double>(grid.count()));
    test.src_value = test.diff_value = [](float v) { return static_cast<float>(Bfloat16(v)); };
  }
  return test;
}

// Strides, dilations, one-sided padding, gaps, and windows of two dimensions stored as d and w.
std::vector<WindowOptions> windows() {
  const auto cube = WindowOptions::cube;
  WindowOptions dilated = cube(3, 1, PaddingKind::kSame);
  dilated.dilation = {2, 1, 2};
  WindowOptions flat = cube(3, 2, PaddingKind::kSame);
  flat.kernel[1] = flat.stride[1] = 1;
  return {cube(3, 1, PaddingKind::kSame),
          cube(2, 1, PaddingKind::kSame),
          cube(2, 3, PaddingKind::kValid),
          dilated,
          flat,
          {{3, 1, 2}, {2, 2, 3}, {2, 1, 3}, PaddingKind::kExplicit, {3, 0, 1}, {4, 0, 2}}};
}

TEST_CASE("depthwise convolutions equal naive loops over any window and cut in space") {
  std::int64_t moved = 0;
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16})
    for (const WindowOptions& window : windows())
      for (const PartGrid& grid : kGrids)
        for (const bool bias : {true, false})
          moved += expect_layer(depthwise_case({window, bias, type}, {5, 7, 6, 8}, grid)).moved;
  CHECK(moved > 1000);
}

TEST_CASE("depthwise convolutions equal naive loops for whole and partial vectors of channels") {
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16})
    for (const std::int64_t channels : {1, 15, 16, 17, 37})
      expect_layer(depthwise_case({WindowOptions::cube(3, 1, PaddingKind::kSame), true, type},
                                  {channels, 5, 4, 6}, {2, 1, 2}));
}

TEST_CASE(
    "depthwise convolutions equal naive loops for rows of whole and partial groups of pixels") {
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16})
    for (const std::int64_t width : {10, 11, 17, 39})
      for (const std::int64_t stride : {1, 2})
        for (const std::int64_t dilation : {1, 2}) {
          WindowOptions window = WindowOptions::cube(3, stride, PaddingKind::kSame);
          window.kernel[1] = window.stride[1] = 1;
          window.dilation = {1, 1, dilation};
          for (const PartGrid& grid : {PartGrid{1, 1, 1}, PartGrid{2, 1, 2}})
            expect_layer(depthwise_case({window, true, type}, {19, 5, 1, width}, grid));
        }
}

TEST_CASE("depthwise convolutions equal naive loops for many channels") {
  for (const std::int64_t channels : {256, 275, 531})
    expect_layer(depthwise_case({WindowOptions::cube(3, 1, PaddingKind::kSame)},
                                {channels, 5, 1, 4}, {2, 1, 1}));
}

TEST_CASE("depthwise convolutions read and write inside wider spans") {
  LayerCase test =
      depthwise_case({WindowOptions::cube(3, 2, PaddingKind::kSame)}, {5, 8, 9, 7}, {2, 2, 1});
  test.cut.src_margin = {1, 2, 1};
  test.cut.dst_margin = {2, 1, 1};
  expect_layer(test);
  test.cut.src_diff_wanted = false;
  expect_layer(test);
  test.cut.training = false;
  test.pass.training = false;
  expect_layer(test);
}

TEST_CASE("a block of channels is computed from that block alone") {
  const DepthwiseOptions options{WindowOptions::cube(3, 1, PaddingKind::kSame)};
  const Shape shape{6, 4, 4, 4};
  LayerCase test = depthwise_case(options, shape, {1, 1, 1});
  test.cut.grid = {2, 1, 1};
  test.cut.src_owned = {{Box{{0, 0, 0, 0}, {4, 4, 4, 4}}, Box{{4, 0, 0, 0}, {6, 4, 4, 4}}}};
  test.cut.dst_owned = {Box{{0, 0, 0, 0}, {1, 4, 4, 4}}, Box{{1, 0, 0, 0}, {6, 4, 4, 4}}};
  for (const bool spans_all : {true, false}) {
    test.cut.dst_spans_all_channels = spans_all;
    CHECK(expect_layer(test).moved > 0);
  }
  const DepthwiseConvolution layer(options);
  const std::vector<Shape> src{shape};
  CHECK(layer.needs(Box{{2, 0, 0, 0}, {5, 2, 4, 4}}, 0, src) == Box{{2, 0, 0, 0}, {5, 3, 4, 4}});
  CHECK(layer.splits_over_channels());
  CHECK(layer.forward_flops(src) == 2 * shape.volume() * 27);
  CHECK(layer.thread_shares(src, Box::whole(shape), 3).at(0).busiest == doctest::Approx(18.0 / 16));
}

// Also outputs between windows, and parts that no window reaches.
TEST_CASE("transposed depthwise convolutions equal naive loops over any window and cut") {
  std::int64_t moved = 0;
  std::vector<WindowOptions> all = windows();
  all.push_back({{2, 1, 3}, {3, 4, 1}, {1, 1, 1}, PaddingKind::kValid, {}, {}});
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16})
    for (const WindowOptions& window : all)
      for (const PartGrid& grid : kGrids)
        for (const bool bias : {true, false}) {
          DepthwiseOptions options{window, bias, type};
          options.transposed = true;
          if (window.padding != PaddingKind::kSame) options.output_padding = {1, 0, 0};
          if (window.stride[1] > 1 && options.output_padding[0] > 0) options.output_padding[1] = 1;
          LayerCase test = depthwise_case(options, {19, 4, 3, 5}, grid);
          test.reference = transposed_reference(window, true);
          if (type == DataType::kBfloat16)
            test.reference =
                in_bfloat16(test.reference, 1, 2.0 * static_cast<double>(grid.count()));
          moved += expect_layer(test).moved;
          if (grid.count() > 1) continue;
          test.cut.src_owned = {channel_blocks({19, 4, 3, 5}, {3, 19})};
          test.cut.dst_owned =
              channel_blocks(test.make_layer()->dst_shape(test.cut.src_shapes), {17, 19});
          expect_layer(test);
        }
  CHECK(moved > 1000);
}

TEST_CASE("depthwise convolution: what it cannot compute is refused, naming it") {
  DepthwiseOptions options{WindowOptions::cube(5, 1, PaddingKind::kValid)};
  const DepthwiseConvolution layer(options);
  const std::vector<Shape> small{{1, 4, 8, 8}}, two{{1, 8, 8, 8}, {1, 8, 8, 8}};
  CHECK_THROWS_WITH_AS(layer.dst_shape(small), doctest::Contains("extent of 4"), Error);
  CHECK_THROWS_WITH_AS(layer.dst_shape(two), doctest::Contains("2 inputs"), Error);
  const std::vector<DataType> half{DataType::kBfloat16};
  CHECK_THROWS_WITH_AS(layer.dst_type(half), doctest::Contains("given bf16"), Error);
  DepthwiseOptions wide{WindowOptions::cube(2, 2, PaddingKind::kValid)};
  wide.transposed = true;
  wide.output_padding = {2, 0, 0};
  CHECK_THROWS_WITH_AS(DepthwiseConvolution{wide}, doctest::Contains("output padding 2"), Error);
  options.type = DataType::kInt16;
  CHECK_THROWS_AS(DepthwiseConvolution{options}, Error);
}

}  // namespace
}  // namespace halomesh
