// SPDX-License-Identifier: Apache-2.0
// Convolutions with groups, without bias, in bf16 and cut by output channels equal a serial fp64
// convolution on any cut.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "error.hpp"
#include "src/nn/layers/convolution.hpp"
#include "src/nn/onednn_library.hpp"
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
  for (const PartGrid& grid : kGrids) {
    expect_layer(form_case(plain, {5, 5, 4, 6}, grid));
    LayerCase test = form_case(grouped, {8, 5, 4, 6}, grid);
    expect_layer(test);
    test.cut.src_margin = {1, 1, 1};
    expect_layer(test);
  }
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
