// SPDX-License-Identifier: Apache-2.0
// Convolutions with groups, without bias, in bf16 and cut by output channels equal a serial fp64
// convolution on any cut.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "error.hpp"
#include "src/nn/layers/convolution.hpp"
#include "src/nn/onednn/library.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/layer_check.hpp"

namespace halomesh {
namespace {

constexpr PartGrid kGrids[] = {{1, 1, 1}, {3, 1, 1}, {1, 2, 1}, {1, 1, 3}, {2, 2, 2}, {7, 1, 2}};

LayerCase form_case(const ConvolutionOptions& options, const Shape& src, const PartGrid& grid) {
  LayerCase test;
  test.name = fmt::format("{} to {} of {} on {}", Convolution(options).kernel_name(),
                          options.filters, src, to_string(grid));
  test.make_layer = [options] { return std::make_unique<Convolution>(options); };
  test.cut.src_shapes = {src};
  test.cut.src_types = {options.compute};
  test.cut.grid = grid;
  test.cut.batch = 2;
  test.reference = convolution_reference(options.window.resolve(src.spatial()), options.groups);
  test.linear = true;
  test.repeat = true;
  if (options.compute == DataType::kBfloat16) {
    // A halo's gradient is rounded on each part that has a share of it and at each addition.
    test.reference = in_bfloat16(test.reference, 1, 2.0 * static_cast<double>(grid.count()));
    const auto short_value = [](float v) { return static_cast<float>(Bfloat16(v)); };
    test.src_value = test.parameter_value = test.diff_value = short_value;
  }
  return test;
}

// Part p produces the channels from cuts[p] to cuts[p + 1], over all of space.
void cut_by_channels(LayerCase& test, const std::vector<std::int64_t>& cuts) {
  const Box whole = Box::whole(test.make_layer()->dst_shape(test.cut.src_shapes));
  test.cut.grid = {static_cast<std::int64_t>(cuts.size()) - 1, 1, 1};
  for (std::size_t p = 0; p + 1 < cuts.size(); ++p) {
    Box box = whole;
    box.lo[kC] = cuts[p];
    box.hi[kC] = cuts[p + 1];
    test.cut.dst_owned.push_back(box.normalized());
  }
}

std::vector<WindowOptions> windows() {
  WindowOptions dilated = WindowOptions::cube(3, 1, PaddingKind::kSame);
  dilated.dilation = {2, 1, 2};
  return {WindowOptions::cube(3, 1, PaddingKind::kSame),
          WindowOptions::cube(2, 2, PaddingKind::kValid),
          WindowOptions::cube(1, 1, PaddingKind::kValid), dilated};
}

TEST_CASE("convolutions with groups equal naive loops on any cut in space") {
  std::int64_t moved = 0;
  for (const WindowOptions& window : windows())
    for (const PartGrid& grid : kGrids)
      for (const bool bias : {true, false}) {
        ConvolutionOptions options{6, window, 3, bias};
        moved += expect_layer(form_case(options, {9, 7, 6, 5}, grid)).moved;
        options.filters = 4;
        options.groups = 4;
        moved += expect_layer(form_case(options, {4, 7, 6, 5}, grid)).moved;
      }
  CHECK(moved > 1000);
  ConvolutionOptions vectors{64, WindowOptions::cube(3, 1, PaddingKind::kSame), 2};
  expect_layer(form_case(vectors, {32, 5, 4, 5}, {2, 1, 2}));
}

TEST_CASE("convolutions without bias equal naive loops on any cut") {
  for (const WindowOptions& window : windows())
    for (const PartGrid& grid : kGrids) {
      LayerCase test = form_case({5, window, 1, false}, {3, 7, 6, 5}, grid);
      expect_layer(test);
      test.cut.src_margin = {1, 0, 2};
      test.cut.dst_margin = {0, 1, 1};
      expect_layer(test);
    }
}

TEST_CASE("convolutions cut by output channels equal naive loops") {
  const WindowOptions window = WindowOptions::cube(3, 1, PaddingKind::kSame);
  std::int64_t moved = 0;
  for (const bool bias : {true, false})
    for (const bool spans_all : {true, false}) {
      LayerCase one = form_case({7, window, 1, bias}, {3, 4, 5, 3}, {1, 1, 1});
      cut_by_channels(one, {0, 3, 3, 7});
      one.cut.dst_spans_all_channels = spans_all;
      moved += expect_layer(one).moved;
      // Whole groups, and parts of one group.
      for (const auto& cuts : {std::vector<std::int64_t>{0, 4, 12},
                               std::vector<std::int64_t>{0, 1, 3, 4, 8, 10, 12}}) {
        LayerCase grouped = form_case({12, window, 3, bias}, {6, 4, 5, 3}, {1, 1, 1});
        cut_by_channels(grouped, cuts);
        grouped.cut.dst_spans_all_channels = spans_all;
        moved += expect_layer(grouped).moved;
      }
    }
  CHECK(moved > 100);
}

TEST_CASE("a part needs the input of the groups that it computes") {
  const Convolution layer({12, WindowOptions::cube(3, 1, PaddingKind::kSame), 3});
  const std::vector<Shape> src{{6, 8, 8, 8}};
  const Box second{{4, 0, 0, 0}, {8, 8, 8, 4}};
  CHECK(layer.needs(second, 0, src) == Box{{2, 0, 0, 0}, {4, 8, 8, 5}});
  const Box across{{3, 0, 0, 0}, {5, 8, 8, 8}};
  CHECK(layer.needs(across, 0, src) == Box{{0, 0, 0, 0}, {4, 8, 8, 8}});
  CHECK(layer.parameters(src)[0].in == Shape{2, 3, 3, 3});
  CHECK(layer.parameters(src)[0].fan_in == 54);
  CHECK(layer.forward_flops(src) == 2 * 12 * 512 * 54);
  CHECK(!layer.splits_over_channels());
  CHECK(Convolution({12, {}}).splits_over_channels());
}

TEST_CASE("convolutions in bf16 equal naive loops to their rounding" *
          doctest::skip(!cpu_computes_bf16())) {
  const ConvolutionOptions plain{16, WindowOptions::cube(3, 1, PaddingKind::kSame), 1, true,
                                 DataType::kBfloat16};
  ConvolutionOptions grouped = plain;
  grouped.groups = 4;
  grouped.bias = false;
  ConvolutionOptions winograd = plain, dense = plain;
  winograd.kernels = GradientKernels::kWinograd;
  dense.kernels = GradientKernels::kDense;
  ConvolutionOptions pointwise = plain, dilated = plain;
  pointwise.window = WindowOptions::cube(1, 1, PaddingKind::kValid);
  dilated.window.dilation = {1, 1, 2};
  for (const PartGrid& grid : kGrids) {
    expect_layer(form_case(plain, {5, 5, 4, 6}, grid));
    expect_layer(form_case(dense, {5, 5, 4, 6}, grid));
    expect_layer(form_case(pointwise, {17, 5, 4, 6}, grid));
    expect_layer(form_case(dilated, {5, 5, 4, 6}, grid));
    LayerCase filtered = form_case(winograd, {32, 5, 4, 6}, grid);
    expect_layer(filtered);
    filtered.cut.src_margin = filtered.cut.dst_margin = {1, 0, 1};
    expect_layer(filtered);
    LayerCase test = form_case(grouped, {8, 5, 4, 6}, grid);
    expect_layer(test);
    test.cut.src_margin = {1, 1, 1};
    expect_layer(test);
  }
}

// What the first and the last convolution of a network in bf16 do.
TEST_CASE("convolutions round fp32 to bf16 and write fp32 where they are to, on any cut" *
          doctest::skip(!cpu_computes_bf16())) {
  struct Row {
    std::int64_t groups;
    bool writes_fp32;
    DataType from;
  };
  for (const Row& row : {Row{1, true, DataType::kBfloat16},
                         {1, false, DataType::kFloat32},
                         {3, true, DataType::kFloat32}})
    for (const PartGrid& grid : {PartGrid{1, 1, 1}, PartGrid{2, 1, 2}}) {
      ConvolutionOptions options{6, WindowOptions::cube(3, 1, PaddingKind::kSame), row.groups, true,
                                 DataType::kBfloat16};
      options.writes_fp32 = row.writes_fp32;
      LayerCase test = form_case(options, {3, 5, 4, 6}, grid);
      test.cut.src_types = {row.from};
      test.cut.src_margin = {1, 0, 1};
      test.cut.dst_margin = {0, 1, 1};
      // Values of fp32 are rounded once wherever they are read, results of bf16 once more.
      const bool rounds = row.from == DataType::kFloat32;
      if (rounds) test.src_value = {};
      if (row.writes_fp32) test.diff_value = {};
      const double x = rounds ? 1 : 0, dy = row.writes_fp32 ? 1 : 0;
      const double parts = 2.0 * static_cast<double>(grid.count());
      const Reference exact =
          in_bfloat16(convolution_reference(options.window.resolve({5, 4, 6}), row.groups),
                      x + (row.writes_fp32 ? 0 : 1), dy + (rounds ? 1 : parts));
      test.reference = [=](const ReferenceInput& in) {
        ReferenceOutput out = exact(in);
        out.diff_parameters[0].terms += (x + dy) * 0x1p16;
        out.diff_parameters[1].terms += dy * 0x1p16;
        return out;
      };
      expect_layer(test);
    }
  ConvolutionOptions channels{7, WindowOptions::cube(3, 1, PaddingKind::kSame), 1, true,
                              DataType::kBfloat16};
  channels.writes_fp32 = true;
  LayerCase test = form_case(channels, {3, 4, 5, 3}, {1, 1, 1});
  cut_by_channels(test, {0, 3, 3, 7});
  CHECK(expect_layer(test).moved > 0);
  CHECK(Convolution(channels).kernel_name() == "convolution 3x3x3 same bf16 to fp32");
}

// Logarithms are rounded to fp32, and in bf16 once more.
TEST_CASE("convolutions read counts as their logarithms or standardized ones, on any cut") {
  const std::vector<ChannelScale> scales{{1.5, 0.25}, {0, 1}, {-2.75, 3}, {8, 2}};
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    if (type == DataType::kBfloat16 && !cpu_computes_bf16()) continue;
    for (const std::int64_t groups : {1, 2})
      for (const auto& scale : {std::vector<ChannelScale>{}, scales})
        for (const PartGrid& grid : {kGrids[0], kGrids[4]}) {
          const ConvolutionOptions options{4, WindowOptions::cube(2, 2, PaddingKind::kValid),
                                           groups, true, type};
          LayerCase test = form_case(options, {4, 7, 6, 5}, grid);
          test.name += " from counts";
          test.cut.src_types = {DataType::kInt16};
          test.cut.count_scales = scale;
          test.cut.src_diff_wanted = false;
          test.src_value = [](float v) { return std::floor(16384 * v) + 16384; };
          const Reference exact = convolution_reference(options.window.resolve({7, 6, 5}), groups);
          test.reference = [=](const ReferenceInput& in) {
            ReferenceInput logarithms = in;
            std::size_t at = 0;  // channels are the last axis
            for (double& x : logarithms.src[0].values) {
              const ChannelScale s = scale.empty() ? ChannelScale{} : scale[at++ % 4];
              x = (std::log1p(x) - s.mean) / s.deviation;
            }
            const double rounding = 1 + (type == DataType::kBfloat16 ? 0x1p16 : 0);
            ReferenceOutput out = exact(logarithms);
            out.dst.terms += 2 * rounding;
            out.diff_parameters[0].terms += rounding;
            return out;
          };
          expect_layer(test);
        }
  }
  LayerCase trained =
      form_case({4, WindowOptions::cube(1, 1, PaddingKind::kValid)}, {4, 3, 3, 3}, {1, 1, 1});
  trained.cut.src_types = {DataType::kInt16};
  CHECK_THROWS_WITH_AS(check_layer(trained), doctest::Contains("gradient of counts"), Error);
}

TEST_CASE("convolution: groups and cuts that do not fit are refused, naming them") {
  const WindowOptions window = WindowOptions::cube(3, 1, PaddingKind::kSame);
  CHECK_THROWS_WITH_AS(Convolution({6, window, 4}), doctest::Contains("6 filters in 4 groups"),
                       Error);
  CHECK_THROWS_AS(Convolution({6, window, 0}), Error);
  const Convolution layer({6, window, 3});
  const std::vector<Shape> four{{4, 5, 5, 5}};
  CHECK_THROWS_WITH_AS(layer.dst_shape(four), doctest::Contains("4 channels in 3 groups"), Error);
  LayerCase across = form_case({6, window, 3}, {3, 4, 4, 4}, {1, 1, 1});
  cut_by_channels(across, {0, 1, 4, 6});
  CHECK_THROWS_WITH_AS(check_layer(across), doctest::Contains("[1,4)"), Error);
  const std::vector<DataType> half{DataType::kBfloat16};
  CHECK_THROWS_WITH_AS(layer.dst_type(half), doctest::Contains("given bf16"), Error);
}

}  // namespace
}  // namespace halomesh
