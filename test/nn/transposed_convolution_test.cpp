// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions on any cut equal serial fp64 loops that spread each input over its
// window.
#include "src/nn/layers/transposed_convolution.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "error.hpp"
#include "src/nn/onednn/library.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/layer_check.hpp"
#include "test/harness/transposed_convolution_reference.hpp"

namespace halomesh {
namespace {

using Options = TransposedConvolutionOptions;

constexpr PartGrid kGrids[] = {{1, 1, 1}, {3, 1, 1}, {1, 2, 1}, {1, 1, 4}, {2, 2, 2}, {9, 1, 2}};

LayerCase transposed_case(const Options& options, const Shape& src, const PartGrid& grid) {
  LayerCase test;
  test.name = fmt::format("{} of {} on {}", TransposedConvolution(options).kernel_name(), src,
                          to_string(grid));
  test.make_layer = [options] { return std::make_unique<TransposedConvolution>(options); };
  test.cut.src_shapes = {src};
  test.cut.src_types = {options.compute};
  test.cut.grid = grid;
  test.cut.batch = 2;
  test.reference = transposed_reference(options.window);
  test.linear = true;
  test.repeat = true;
  if (options.compute == DataType::kBfloat16) {
    test.reference = in_bfloat16(test.reference, 2, 2.0 * static_cast<double>(grid.count()));
    test.src_value = test.parameter_value =
        test.diff_value = [](float v) { return static_cast<float>(Bfloat16(v)); };
  }
  return test;
}

// U-Net's and DeepCAM's, overlapping, dilated, with gaps that no window reaches, different by axis.
std::vector<Options> forms() {
  const auto cube = WindowOptions::cube;
  const auto padded = [&](std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                          std::int64_t padding, std::int64_t output_padding) {
    WindowOptions w = cube(kernel, stride, PaddingKind::kExplicit);
    w.dilation = {dilation, dilation, dilation};
    w.pad_before = w.pad_after = {padding, padding, padding};
    return Options{3, w, {output_padding, output_padding, output_padding}};
  };
  return {{3, cube(2, 2, PaddingKind::kValid)},
          padded(3, 2, 1, 1, 1),
          {3, cube(3, 2, PaddingKind::kSame)},
          {3, cube(3, 1, PaddingKind::kSame)},
          {3, cube(1, 2, PaddingKind::kSame)},
          padded(3, 1, 2, 1, 1),
          padded(2, 3, 1, 0, 2),
          padded(2, 1, 4, 2, 3),
          {2,
           {{4, 1, 2}, {2, 3, 1}, {1, 1, 3}, PaddingKind::kExplicit, {1, 0, 2}, {2, 0, 0}},
           {0, 2, 1}}};
}

TEST_CASE("transposed convolutions equal naive loops over any window and cut in space") {
  std::int64_t moved = 0;
  for (Options options : forms())
    for (const PartGrid& grid : kGrids)
      for (const bool bias : {true, false}) {
        options.bias = bias;
        moved += expect_layer(transposed_case(options, {4, 5, 3, 6}, grid)).moved;
      }
  CHECK(moved > 1000);
}

TEST_CASE("transposed convolutions of many channels: weight gradients tap by tap on any cut") {
  Options options{128,
                  {{3, 1, 3}, {2, 1, 2}, {1, 1, 1}, PaddingKind::kExplicit, {1, 0, 1}, {1, 0, 1}},
                  {1, 0, 1}};
  LayerCase test = transposed_case(options, {128, 46, 1, 48}, {2, 1, 1});
  test.cut.batch = 1;
  CHECK(expect_layer(test).moved > 0);
}

TEST_CASE("transposed convolutions in bf16 equal naive loops to their rounding" *
          doctest::skip(!cpu_computes_bf16())) {
  for (Options options : forms()) {
    options.compute = DataType::kBfloat16;
    for (const PartGrid& grid : {PartGrid{1, 1, 1}, PartGrid{2, 1, 2}}) {
      options.writes_fp32 = false;
      expect_layer(transposed_case(options, {4, 5, 3, 6}, grid));
      // Results of fp32 are not rounded to bf16, and their gradients are where they are read.
      options.writes_fp32 = true;
      LayerCase test = transposed_case(options, {4, 5, 3, 6}, grid);
      const Reference exact = in_bfloat16(transposed_reference(options.window), 0,
                                          1 + 2.0 * static_cast<double>(grid.count()));
      test.reference = [=](const ReferenceInput& in) {
        ReferenceOutput out = exact(in);
        out.diff_parameters[0].terms += 0x1p16;
        return out;
      };
      test.diff_value = {};
      test.cut.dst_margin = {0, 1, 1};
      expect_layer(test);
    }
  }
}

TEST_CASE("transposed convolutions: vectors of channels, wider spans, and cuts by channels") {
  const Options options{32, WindowOptions::cube(2, 2, PaddingKind::kValid)};
  expect_layer(transposed_case(options, {64, 4, 3, 5}, {2, 1, 2}));
  Options overlapping = forms()[1];
  LayerCase test = transposed_case(overlapping, {4, 5, 3, 6}, {2, 2, 1});
  test.cut.src_margin = {1, 0, 2};
  test.cut.dst_margin = {0, 1, 1};
  expect_layer(test);
  test.cut.src_diff_wanted = false;
  expect_layer(test);
  test.cut.training = test.pass.training = false;
  expect_layer(test);
  for (const bool spans_all : {true, false}) {
    overlapping.filters = 5;
    LayerCase channels = transposed_case(overlapping, {4, 3, 3, 3}, {2, 1, 1});
    Box low = Box::whole(TransposedConvolution(overlapping).dst_shape(channels.cut.src_shapes));
    Box high = low;
    low.hi[kC] = high.lo[kC] = 2;
    channels.cut.dst_owned = {low, high};
    channels.cut.dst_spans_all_channels = spans_all;
    CHECK(expect_layer(channels).moved > 0);
  }
}

TEST_CASE("transposed convolutions: extents and needed boxes") {
  const std::vector<Shape> src{{4, 5, 5, 5}};
  const TransposedConvolution doubled({2, WindowOptions::cube(2, 2, PaddingKind::kValid)});
  CHECK(doubled.dst_shape(src) == Shape{2, 10, 10, 10});
  CHECK(doubled.needs(Box{{0, 4, 3, 0}, {2, 6, 5, 1}}, 0, src) == Box{{0, 2, 1, 0}, {4, 3, 3, 1}});
  const TransposedConvolution deepcam(forms()[1]);
  CHECK(deepcam.dst_shape(src) == Shape{3, 10, 10, 10});
  // One plane behind the block, none before it.
  CHECK(deepcam.needs(Box{{0, 4, 0, 8}, {3, 6, 10, 10}}, 0, src) ==
        Box{{0, 2, 0, 4}, {4, 4, 5, 5}});
  const TransposedConvolution gaps({2, WindowOptions::cube(1, 2, PaddingKind::kSame)});
  CHECK(gaps.dst_shape(src) == Shape{2, 10, 10, 10});
  CHECK(gaps.needs(Box{{0, 1, 0, 0}, {2, 2, 10, 10}}, 0, src).empty());
  CHECK(doubled.forward_flops(src) == 2 * 4 * 125 * 2 * 8);
  CHECK(doubled.parameters(src)[0].out == 4);
  CHECK(doubled.parameters(src)[0].fan_in == 16);
}

TEST_CASE("transposed convolutions: what they cannot compute is refused, naming it") {
  const WindowOptions two = WindowOptions::cube(2, 2, PaddingKind::kValid);
  CHECK_THROWS_WITH_AS(TransposedConvolution({0, two}), doctest::Contains("0 filters"), Error);
  CHECK_THROWS_WITH_AS(TransposedConvolution({1, two, {0, 2, 0}}),
                       doctest::Contains("output padding 2 along axis 1"), Error);
  WindowOptions wide = WindowOptions::cube(2, 1, PaddingKind::kExplicit);
  wide.pad_before = wide.pad_after = {1, 1, 1};
  const std::vector<Shape> one{{1, 1, 1, 1}}, several{{1, 4, 4, 4}, {1, 4, 4, 4}};
  const TransposedConvolution layer({1, wide});
  CHECK_THROWS_WITH_AS(layer.dst_shape(one), doctest::Contains("nothing is left along axis 0"),
                       Error);
  CHECK_THROWS_WITH_AS(layer.dst_shape(several), doctest::Contains("2 inputs"), Error);
  const std::vector<DataType> half{DataType::kBfloat16};
  CHECK_THROWS_WITH_AS(layer.dst_type(half), doctest::Contains("given bf16"), Error);
}

TEST_CASE("transposed convolutions of U-Net's sizes do not fall to reference kernels") {
  std::size_t seen = 0;
  for (const std::int64_t channels : {32, 64, 128})
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
      if (type == DataType::kBfloat16 && !cpu_computes_bf16()) continue;
      Options options{channels, WindowOptions::cube(2, 2, PaddingKind::kValid)};
      options.compute = type;
      TransposedConvolution layer(options);
      LayerContext context;
      context.src_shapes = {{2 * channels, 8, 8, 8}};
      const Box src = Box::whole(context.src_shapes[0]);
      context.dst_shape = layer.dst_shape(context.src_shapes);
      const Box dst = Box::whole(context.dst_shape);
      context.boxes = {{src}, dst, dst};
      context.src_spans = {src};
      context.dst_span = dst;
      context.dst_chunks = {dst};
      context.src_diff_wanted = {true};
      layer.prepare(context, {});
      for (const std::string& name : layer.implementations()) {
        CHECK_MESSAGE(name.find("ref") == std::string::npos, name);
        ++seen;
      }
    }
  CHECK(seen >= 9);
}

}  // namespace
}  // namespace halomesh
