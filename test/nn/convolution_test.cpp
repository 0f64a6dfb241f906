// SPDX-License-Identifier: Apache-2.0
// Convolution cut any way equals a serial fp64 convolution: output, both gradients, adjoint.
// Literal corner cases and several hundred seeded ones.
#include "src/nn/layers/convolution.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "error.hpp"
#include "rng.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/layer_check.hpp"

namespace halomesh {
namespace {

LayerCase convolution_case(const ConvolutionOptions& options, const Shape& src,
                           const PartGrid& grid, std::int64_t batch = 1) {
  LayerCase test;
  test.name = fmt::format("convolution of {}, kernel {} {} {}, {} parts, batch {}", src,
                          options.window.kernel[0], options.window.kernel[1],
                          options.window.kernel[2], to_string(grid), batch);
  test.make_layer = [options] { return std::make_unique<Convolution>(options); };
  test.cut.src_shapes = {src};
  test.cut.grid = grid;
  test.cut.batch = batch;
  test.reference = convolution_reference(options.window.resolve(src.spatial()));
  test.linear = true;
  return test;
}

// Seeded choices for case number `number`.
class Choices {
 public:
  explicit Choices(std::uint32_t number) : rng_(20, RandomUse::kSynth, number) {}
  std::int64_t between(std::int64_t lo, std::int64_t hi) {
    return lo + static_cast<std::int64_t>(rng_.block(next_++)[0] %
                                          static_cast<std::uint64_t>(hi - lo + 1));
  }
  Spatial each(std::int64_t lo, std::int64_t hi) {
    return {between(lo, hi), between(lo, hi), between(lo, hi)};
  }

 private:
  CounterRng rng_;
  std::uint64_t next_ = 0;
};

WindowOptions random_window(Choices& choose) {
  WindowOptions window;
  const bool mixed = choose.between(0, 1) == 1;
  const auto axes = [&](std::int64_t hi) {
    const std::int64_t same = choose.between(1, hi);
    return mixed ? choose.each(1, hi) : Spatial{same, same, same};
  };
  window.kernel = axes(5);
  window.stride = axes(3);
  window.dilation = axes(2);
  window.padding = std::array{PaddingKind::kSame, PaddingKind::kExplicit, PaddingKind::kExplicit,
                              PaddingKind::kValid}[static_cast<std::size_t>(choose.between(0, 3))];
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t reach = (window.kernel[a] - 1) * window.dilation[a] + 1;
    window.pad_before[a] = choose.between(0, reach - 1);
    window.pad_after[a] = choose.between(0, reach - 1);
  }
  return window;
}

LayerCase random_case(std::uint32_t number) {
  constexpr std::array<PartGrid, 18> kGrids{{{1, 1, 1},
                                             {2, 1, 1},
                                             {3, 1, 1},
                                             {5, 1, 1},
                                             {7, 1, 1},
                                             {18, 1, 1},
                                             {1, 2, 1},
                                             {1, 1, 4},
                                             {1, 5, 1},
                                             {2, 2, 1},
                                             {1, 2, 2},
                                             {1, 3, 2},
                                             {4, 1, 3},
                                             {2, 2, 2},
                                             {2, 3, 1},
                                             {3, 1, 2},
                                             {3, 3, 2},
                                             {2, 3, 3}}};
  Choices choose(number);
  ConvolutionOptions options{choose.between(1, 4), random_window(choose)};
  Spatial extents = choose.each(1, 9);
  const bool same = options.window.padding == PaddingKind::kSame;
  for (std::size_t a = 0; a < 3 && !same; ++a)  // wide enough for one output plane
    while (options.window.resolve(extents)[a].dst_extent(extents[a]) < 1) ++extents[a];
  const Shape src{choose.between(1, 4), extents[0], extents[1], extents[2]};
  const PartGrid grid = kGrids[static_cast<std::size_t>(choose.between(0, kGrids.size() - 1))];
  LayerCase test = convolution_case(options, src, grid, choose.between(1, 3));
  test.name = fmt::format("case {}: {}", number, test.name);
  test.seed = number;
  if (choose.between(0, 2) == 0) test.cut.src_margin = choose.each(0, 2);
  if (choose.between(0, 2) == 0) test.cut.dst_margin = choose.each(0, 2);
  return test;
}

// Winograd's filtering needs kernels of 2 or 3 (or 3x1x3), whole vectors of input channels and, for
// gradients, of output channels. Windows begin at even voxels of the whole tensor: boxes that do
// not begin and end there, and paddings that move them, are the corners.
LayerCase random_winograd_case(std::uint32_t number) {
  Choices choose(number);
  ConvolutionOptions options{
      std::array<std::int64_t, 6>{1, 16, 17, 32, 33,
                                  48}[static_cast<std::size_t>(choose.between(0, 5))],
      {}};
  options.kernels = GradientKernels::kWinograd;
  const std::int64_t kernel = choose.between(2, 3);
  WindowOptions& w = options.window;
  w = WindowOptions::cube(kernel, 1, PaddingKind::kExplicit);
  w.pad_before = choose.each(0, kernel - 1);
  w.pad_after = choose.each(0, kernel - 1);
  if (kernel == 3 && choose.between(0, 1) == 0) {
    w.kernel[1] = 1;
    w.pad_before[1] = w.pad_after[1] = 0;
  }
  options.bias = choose.between(0, 1) == 0;
  const Shape src{16 * choose.between(1, 3), choose.between(3, 7), choose.between(3, 7),
                  choose.between(3, 9)};
  constexpr std::array<PartGrid, 6> kGrids{
      {{1, 1, 1}, {2, 1, 1}, {1, 2, 2}, {3, 1, 2}, {2, 2, 2}, {1, 1, 4}}};
  LayerCase test = convolution_case(
      options, src, kGrids[static_cast<std::size_t>(choose.between(0, 5))], choose.between(1, 2));
  test.name = fmt::format("Winograd case {}: {}", number, test.name);
  test.seed = number;
  if (choose.between(0, 2) == 0) test.cut.src_margin = choose.each(0, 2);
  if (choose.between(0, 2) == 0) test.cut.dst_margin = choose.each(0, 2);
  test.repeat = choose.between(0, 3) == 0;
  return test;
}

WindowOptions explicit_window(std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                              std::int64_t before, std::int64_t after) {
  return {{kernel, kernel, kernel}, {stride, stride, stride}, {dilation, dilation, dilation},
          PaddingKind::kExplicit,   {before, before, before}, {after, after, after}};
}

}  // namespace

TEST_CASE("convolution cut over parts equals the serial one: seeded cases") {
  std::int64_t cases = 0, moved = 0;
  for (std::uint32_t number = 0; number < 400; ++number, ++cases)
    moved += expect_layer(random_case(number)).moved;
  CHECK(cases == 400);
  CHECK(moved > 100000);
}

TEST_CASE("convolution by Winograd's filtering cut over parts equals the serial one") {
  std::int64_t cases = 0, moved = 0;
  for (std::uint32_t number = 7000; number < 7100; ++number, ++cases)
    moved += expect_layer(random_winograd_case(number)).moved;
  CHECK(cases == 100);
  CHECK(moved > 10000);
}

// Extents for which large windows cost less.
TEST_CASE("convolution by F(4, 3) cut over parts equals the serial one") {
  for (const PartGrid& grid : {PartGrid{1, 1, 1}, PartGrid{2, 1, 2}})
    for (const bool image : {false, true}) {
      ConvolutionOptions options{16, WindowOptions::cube(3, 1, PaddingKind::kSame)};
      options.kernels = GradientKernels::kWinograd;
      if (image) options.window.kernel[1] = 1;
      LayerCase test =
          convolution_case(options, image ? Shape{16, 24, 1, 27} : Shape{16, 8, 13, 24}, grid, 2);
      test.cut.src_margin = test.cut.dst_margin = {1, 0, 2};
      expect_layer(test);
    }
}

TEST_CASE("convolution cut over parts: corner cases") {
  const auto same = [](std::int64_t kernel) {
    return WindowOptions::cube(kernel, 1, PaddingKind::kSame);
  };
  SUBCASE("kernel 2, SAME: one plane after, none before") {
    for (const PartGrid grid : {PartGrid{4, 1, 1}, PartGrid{2, 2, 2}, PartGrid{1, 3, 2}})
      CHECK(expect_layer(convolution_case({3, same(2)}, {2, 8, 7, 6}, grid, 2)).moved > 0);
  }
  SUBCASE("more parts than planes: empty parts on both sides") {
    expect_layer(convolution_case({2, same(3)}, {2, 3, 4, 4}, {7, 1, 1}));
    expect_layer(convolution_case({2, same(2)}, {1, 2, 2, 2}, {3, 3, 2}));
  }
  SUBCASE("parts that own input but no output, and output but a neighbour's input") {
    expect_layer(convolution_case({2, WindowOptions::cube(3, 3, PaddingKind::kSame)}, {2, 10, 5, 4},
                                  {6, 1, 1}));
    expect_layer(convolution_case({2, explicit_window(3, 1, 1, 2, 2)}, {2, 3, 2, 2}, {5, 1, 1}));
  }
  SUBCASE("halo wider than a neighbour's block") {
    expect_layer(convolution_case({2, same(5)}, {2, 6, 4, 4}, {6, 1, 1}));
    expect_layer(convolution_case({2, explicit_window(5, 1, 2, 4, 4)}, {1, 9, 9, 9}, {3, 3, 2}));
  }
  SUBCASE("a dilation wider than all but one row, of images stored as d and w") {
    WindowOptions window = explicit_window(3, 1, 18, 18, 18);
    window.kernel[1] = window.dilation[1] = 1;
    window.pad_before[1] = window.pad_after[1] = 0;
    for (const PartGrid grid : {PartGrid{1, 1, 1}, PartGrid{3, 1, 1}, PartGrid{4, 1, 2}})
      expect_layer(convolution_case({16, window}, {20, 20, 1, 5}, grid));
  }
  SUBCASE("dilations with many taps in the padding, of many channels: products of taps") {
    WindowOptions window = explicit_window(3, 1, 5, 5, 5);
    window.kernel[1] = window.dilation[1] = 1;
    window.pad_before[1] = window.pad_after[1] = 0;
    for (const PartGrid grid : {PartGrid{1, 1, 1}, PartGrid{3, 1, 1}, PartGrid{2, 1, 2}})
      expect_layer(convolution_case({65, window}, {64, 8, 1, 7}, grid, 2));
    LayerCase test = convolution_case({64, window}, {70, 8, 1, 7}, {2, 1, 2}, 2);
    test.cut.src_margin = test.cut.dst_margin = {1, 0, 2};
    expect_layer(test);
    test.cut.training = test.pass.training = false;
    expect_layer(test);
  }
  SUBCASE("stride wider than the kernel: planes that no window needs have gradient zero") {
    expect_layer(convolution_case({2, explicit_window(1, 3, 1, 0, 0)}, {2, 9, 8, 7}, {2, 2, 1}));
  }
  SUBCASE("an output whose taps all fall into padding, by dilation") {
    expect_layer(convolution_case({2, explicit_window(2, 1, 4, 2, 1)}, {2, 2, 2, 2}, {1, 1, 1}));
    expect_layer(convolution_case({2, explicit_window(2, 1, 4, 3, 3)}, {2, 3, 3, 3}, {3, 1, 1}));
  }
  SUBCASE("kernels of 1x1x1, of several samples and inside of larger spans") {
    const ConvolutionOptions options{17, WindowOptions::cube(1, 1, PaddingKind::kValid)};
    expect_layer(convolution_case(options, {33, 5, 4, 3}, {1, 1, 1}));
    LayerCase test = convolution_case(options, {33, 5, 4, 3}, {2, 2, 1}, 3);
    expect_layer(test);
    test.cut.src_margin = test.cut.dst_margin = {1, 0, 2};
    expect_layer(test);
  }
  SUBCASE("1x1x1 input") {
    expect_layer(convolution_case({4, same(3)}, {5, 1, 1, 1}, {2, 2, 1}, 3));
  }
  SUBCASE("channel counts of the vector kernels") {
    expect_layer(convolution_case({16, same(2)}, {4, 8, 8, 8}, {2, 2, 1}, 2));
    expect_layer(convolution_case({32, same(3)}, {16, 6, 6, 6}, {2, 1, 2}, 2));
    expect_layer(convolution_case({33, same(2)}, {17, 5, 6, 4}, {1, 2, 1}, 2));
  }
}

TEST_CASE("convolution: spans wider than the boxes go through dense buffers") {
  LayerCase test = convolution_case({3, WindowOptions::cube(3, 1, PaddingKind::kSame)},
                                    {2, 9, 9, 9}, {2, 2, 2}, 2);
  test.cut.src_margin = {1, 2, 3};
  test.cut.dst_margin = {2, 1, 1};
  expect_layer(test);
}

TEST_CASE("convolution: one part owns everything, another computes") {
  LayerCase test =
      convolution_case({3, WindowOptions::cube(2, 1, PaddingKind::kSame)}, {2, 4, 5, 3}, {3, 1, 1});
  test.cut.src_owned = {{Box{}, Box::whole({2, 4, 5, 3}), Box{}}};
  test.cut.dst_owned = {Box{}, Box{}, Box::whole({3, 4, 5, 3})};
  CHECK(expect_layer(test).moved == 2 * 2 * 4 * 5 * 3);
}

TEST_CASE("convolution: a second step overwrites all results with the same bits") {
  LayerCase test = convolution_case({16, WindowOptions::cube(3, 1, PaddingKind::kSame)},
                                    {4, 16, 12, 12}, {2, 1, 1}, 2);
  test.repeat = true;
  expect_layer(test);
}

TEST_CASE("convolution: without input gradient, and without training") {
  LayerCase test =
      convolution_case({3, WindowOptions::cube(2, 1, PaddingKind::kSame)}, {2, 6, 5, 4}, {2, 1, 1});
  test.cut.src_diff_wanted = false;
  expect_layer(test);
  test.cut.training = false;
  test.pass.training = false;
  expect_layer(test);
}

TEST_CASE("convolution: unsupported options are refused, naming them") {
  CHECK_THROWS_WITH_AS(Convolution({0, {}}), doctest::Contains("0 filters"), Error);
  const Convolution layer({2, WindowOptions::cube(5, 1, PaddingKind::kValid)});
  const std::vector<Shape> small{{1, 4, 8, 8}}, two{{1, 8, 8, 8}, {1, 8, 8, 8}};
  CHECK_THROWS_WITH_AS(layer.dst_shape(small), doctest::Contains("extent of 4"), Error);
  CHECK_THROWS_WITH_AS(layer.dst_shape(two), doctest::Contains("2 inputs"), Error);
}

namespace {

std::vector<std::string> implementations_of(const ConvolutionOptions& options, const Shape& src,
                                            bool diff_wanted = true) {
  Convolution convolution(options);
  LayerContext context;
  context.src_shapes = {src};
  context.dst_shape = convolution.dst_shape(context.src_shapes);
  const Box dst = Box::whole(context.dst_shape);
  context.boxes = {{Box::whole(src)}, dst, dst};
  context.src_spans = {Box::whole(src)};
  context.src_types = {DataType::kFloat32};
  context.dst_span = dst;
  const std::int64_t planes = context.dst_shape.d;
  context.dst_chunks = {with_d_range(dst, 0, planes - 1), with_d_range(dst, planes - 1, planes)};
  context.src_diff_wanted = {diff_wanted};
  convolution.prepare(context, {});
  return convolution.implementations();
}

}  // namespace

TEST_CASE("convolution: passes are Winograd's where it pays, or wherever the shapes fit") {
  const auto passes = [](ConvolutionOptions options, const Shape& src, GradientKernels kernels) {
    options.kernels = kernels;
    const auto names = implementations_of(options, src);
    return std::count_if(names.begin(), names.end(), [](const std::string& name) {
      return name.find("fp32 winograd:halomesh") != std::string::npos;
    });
  };
  const ConvolutionOptions wide{32, WindowOptions::cube(3, 1, PaddingKind::kSame)};
  ConvolutionOptions strided = wide, dilated = wide, grouped = wide, line = wide, odd = wide,
                     image = wide;
  strided.window.stride = {2, 2, 2};
  dilated.window.dilation = {2, 2, 2};
  grouped.groups = 2;
  line.window.kernel = {3, 1, 1};
  image.window.kernel = {3, 1, 3};
  odd.filters = 33;
  const Shape large{32, 16, 16, 16}, few{32, 2, 2, 2}, narrow{17, 16, 16, 16};
  using enum GradientKernels;
  CHECK(passes(wide, large, kAuto) == 3);
  CHECK(passes(wide, large, kDense) == 0);
  CHECK(passes(wide, few, kAuto) == 0);
  CHECK(passes(wide, few, kWinograd) == 3);
  CHECK(passes(odd, large, kWinograd) == 1);  // forward: sums over input channels alone
  for (const ConvolutionOptions& other : {strided, dilated, grouped, line})
    CHECK(passes(other, large, kWinograd) == 0);
  CHECK(passes(image, {256, 48, 1, 72}, kAuto) == 3);
  CHECK(passes(image, {256, 2, 1, 2}, kAuto) == 0);
  CHECK(passes(wide, narrow, kWinograd) == 1);  // the gradient of the data
}

#if defined(__x86_64__)  // elsewhere the library may have no compiled products
TEST_CASE("convolution: 1x1x1 kernels with stride 1 are products, in fp32; forward of few voxels") {
  const auto products = [](const ConvolutionOptions& options, const Shape& src) {
    const auto names = implementations_of(options, src);
    return std::count_if(names.begin(), names.end(), [](const std::string& name) {
      return name.find("fp32 product") != std::string::npos;
    });
  };
  const ConvolutionOptions pointwise{48, WindowOptions::cube(1, 1, PaddingKind::kValid)};
  const Shape few{32, 4, 4, 4}, many{32, 4, 32, 32};
  CHECK(products(pointwise, few) == 3);
  CHECK(products(pointwise, many) == 2);
  ConvolutionOptions strided = pointwise, grouped = pointwise, wide = pointwise;
  strided.window.stride = {1, 2, 1};
  grouped.groups = 2;
  wide.window.kernel = {1, 1, 3};
  for (const ConvolutionOptions& other : {strided, grouped, wide}) CHECK(products(other, few) == 0);
}
#endif

TEST_CASE("convolution: no layer of CosmoFlow falls to a reference kernel") {
  constexpr std::array<std::int64_t, 6> kChannels{4, 16, 32, 64, 128, 256};
#if defined(__ARM_FEATURE_SVE)
  // For kernel 3 on 2x2x2, oneDNN 2.6 only has a reference kernel for the weight gradient.
  constexpr std::array<std::int64_t, 1> kExtents{64};
#else
  constexpr std::array<std::int64_t, 2> kExtents{32, 64};
#endif
  std::size_t seen = 0;
  for (const std::int64_t kernel : {2, 3})
    for (const std::int64_t extent : kExtents)
      for (std::size_t layer = 0; layer < 5; ++layer) {
        const std::int64_t e = extent >> layer;
        const Shape src{kChannels[layer], e, e, e};
        ConvolutionOptions options{kChannels[layer + 1],
                                   WindowOptions::cube(kernel, 1, PaddingKind::kSame)};
        options.kernels = GradientKernels::kDense;
        const auto names = implementations_of(options, src, layer > 0);
        CHECK(names.size() >= (layer > 0 ? 3U : 2U));
        for (const std::string& name : names) {
          CHECK_MESSAGE(name.find("ref") == std::string::npos,
                        fmt::format("layer {}, {}, kernel {}: {}", layer + 1, src, kernel, name));
          ++seen;
        }
      }
  CHECK(seen >= 2 * kExtents.size() * (4 * 3 + 2));
}

}  // namespace halomesh
