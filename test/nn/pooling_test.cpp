// SPDX-License-Identifier: Apache-2.0
// Pooling over any cut against naive loops in double precision, and what it must refuse.
#include "src/nn/layers/pooling.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "error.hpp"
#include "src/nn/pack.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/layer_check.hpp"
#include "test/harness/pooling_reference.hpp"

namespace halomesh {
namespace {

LayerCase make_case(const std::string& name, PoolingKind kind, const WindowOptions& window,
                    const Shape& src, const PartGrid& grid) {
  LayerCase test;
  test.name =
      fmt::format("{} of {} on {}, kind {}", name, src, to_string(grid), static_cast<int>(kind));
  test.make_layer = [=] { return make_pooling(kind, window); };
  test.cut.src_shapes = {src};
  test.cut.grid = grid;
  test.cut.batch = 2;
  test.reference = pooling_reference(kind, window);
  test.linear = kind != PoolingKind::kMax;
  test.repeat = true;
  return test;
}

struct WindowCase {
  const char* name;
  WindowOptions window;
};

// Padding that is wider before than after, windows that overlap, leave gaps, and differ by axis.
std::vector<WindowCase> window_cases() {
  const auto cube = WindowOptions::cube;
  return {
      {"same 2/2", cube(2, 2, PaddingKind::kSame)},
      {"valid 2/2", cube(2, 2, PaddingKind::kValid)},
      {"same 3/2", cube(3, 2, PaddingKind::kSame)},
      {"same 3/1", cube(3, 1, PaddingKind::kSame)},
      {"valid 2/3", cube(2, 3, PaddingKind::kValid)},
      {"same 5/2", cube(5, 2, PaddingKind::kSame)},
      {"valid 1/1", cube(1, 1, PaddingKind::kValid)},
      {"explicit", {{4, 2, 3}, {1, 2, 3}, {1, 1, 1}, PaddingKind::kExplicit, {3, 0, 1}, {0, 1, 2}}},
      {"dilated", {{3, 2, 2}, {1, 2, 3}, {2, 3, 2}, PaddingKind::kExplicit, {2, 0, 1}, {2, 1, 1}}},
      {"dilated same", {{2, 2, 3}, {2, 2, 2}, {3, 2, 2}, PaddingKind::kSame, {}, {}}}};
}

constexpr PartGrid kGrids[] = {{1, 1, 1}, {3, 1, 1}, {1, 2, 1}, {1, 1, 4},
                               {2, 2, 1}, {2, 3, 2}, {9, 1, 2}};

TEST_CASE("pooling equals naive loops over any window and cut") {
  std::int64_t moved = 0;
  for (const WindowCase& w : window_cases())
    for (PoolingKind kind :
         {PoolingKind::kMax, PoolingKind::kAverage, PoolingKind::kAverageWithPadding})
      for (const PartGrid& grid : kGrids)
        moved += expect_layer(make_case(w.name, kind, w.window, {3, 7, 6, 8}, grid)).moved;
  CHECK(moved > 0);
}

// Maxima are copied: their magnitude 0 demands equality in bf16, too.
TEST_CASE("pooling in bf16 equals naive loops to its rounding on any cut") {
  std::int64_t moved = 0;
  for (const WindowCase& w : window_cases())
    for (PoolingKind kind :
         {PoolingKind::kMax, PoolingKind::kAverage, PoolingKind::kAverageWithPadding})
      for (const PartGrid& grid : kGrids) {
        LayerCase test = make_case(w.name, kind, w.window, {19, 7, 6, 8}, grid);
        test.name += " in bf16";
        test.make_layer = [=] { return make_pooling(kind, w.window, DataType::kBfloat16); };
        test.cut.src_types = {DataType::kBfloat16};
        // A halo's gradient is rounded on each part that has a share of it and at each addition.
        test.reference = in_bfloat16(pooling_reference(kind, w.window), 1,
                                     2.0 * static_cast<double>(grid.count()));
        test.src_value = test.diff_value = [](float v) { return static_cast<float>(Bfloat16(v)); };
        moved += expect_layer(test).moved;
      }
  CHECK(moved > 0);
  const std::vector<DataType> half{DataType::kBfloat16};
  CHECK_THROWS_WITH_AS(MaxPooling(window_cases()[0].window).dst_type(half),
                       doctest::Contains("pooling of fp32 given bf16"), Error);
}

// Windows that end behind the input where ceil adds one, that would begin there, and that fit.
std::vector<WindowCase> ceil_cases() {
  std::vector<WindowCase> cases{
      {"valid 2/2", WindowOptions::cube(2, 2, PaddingKind::kValid)},
      {"valid 2/3", WindowOptions::cube(2, 3, PaddingKind::kValid)},
      {"valid 3/1", WindowOptions::cube(3, 1, PaddingKind::kValid)},
      {"explicit 3/2",
       {{3, 3, 3}, {2, 2, 2}, {1, 1, 1}, PaddingKind::kExplicit, {1, 1, 1}, {1, 1, 1}}},
      {"explicit 2/3",
       {{2, 3, 2}, {3, 3, 3}, {1, 1, 1}, PaddingKind::kExplicit, {1, 0, 0}, {1, 2, 1}}},
      {"dilated", {{3, 2, 2}, {2, 2, 3}, {2, 1, 2}, PaddingKind::kExplicit, {1, 0, 1}, {1, 1, 1}}}};
  for (WindowCase& w : cases) w.window.ceil = true;
  return cases;
}

TEST_CASE("pooling with ceil equals naive loops over any window and cut") {
  std::int64_t moved = 0;
  for (const WindowCase& w : ceil_cases())
    for (PoolingKind kind :
         {PoolingKind::kMax, PoolingKind::kAverage, PoolingKind::kAverageWithPadding})
      for (const PartGrid& grid : kGrids)
        moved += expect_layer(make_case(w.name, kind, w.window, {3, 7, 6, 8}, grid)).moved;
  CHECK(moved > 0);
}

TEST_CASE("pooling with ceil has the extents of PyTorch's ceil_mode") {
  const auto extent = [](std::int64_t src, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding) {
    WindowOptions window = WindowOptions::cube(kernel, stride, PaddingKind::kExplicit);
    window.pad_before = window.pad_after = {padding, padding, padding};
    window.ceil = true;
    const std::vector<Shape> shapes{{1, src, src, src}};
    return MaxPooling(window).dst_shape(shapes).d;
  };
  std::int64_t compared = 0, added = 0, dropped = 0;
  for (std::int64_t kernel = 1; kernel <= 4; ++kernel)
    for (std::int64_t stride = 1; stride <= 4; ++stride)
      for (std::int64_t padding = 0; 2 * padding <= kernel && padding < kernel; ++padding)
        for (std::int64_t src = kernel; src <= 12; ++src, ++compared) {
          // torch.nn.MaxPool3d: the quotient rounded up, less a window that begins in the padding.
          const std::int64_t room = src + 2 * padding - kernel;
          std::int64_t expected = (room + stride - 1) / stride + 1;
          if ((expected - 1) * stride >= src + padding) --expected, ++dropped;
          added += expected > room / stride + 1 ? 1 : 0;
          CHECK(extent(src, kernel, stride, padding) == expected);
        }
  CHECK(compared > 200);
  CHECK(added > 20);
  CHECK(dropped > 3);
}

TEST_CASE("pooling gives the same results for whole and partial blocks of channels") {
  for (std::int64_t channels : {1, 15, 16, 17, 37})
    for (PoolingKind kind : {PoolingKind::kMax, PoolingKind::kAverage})
      for (std::int64_t stride : {1, 2})
        expect_layer(make_case(fmt::format("{} channels", channels), kind,
                               WindowOptions::cube(2, stride, PaddingKind::kSame),
                               {channels, 5, 4, 6}, {2, 1, 2}));
}

TEST_CASE("pooling reads and writes inside wider spans") {
  for (PoolingKind kind : {PoolingKind::kMax, PoolingKind::kAverage}) {
    LayerCase test = make_case("margins", kind, WindowOptions::cube(2, 2, PaddingKind::kSame),
                               {5, 8, 9, 7}, {2, 2, 1});
    test.cut.src_margin = {1, 2, 1};
    test.cut.dst_margin = {2, 1, 1};
    expect_layer(test);
    test.cut.training = false;
    expect_layer(test);
  }
}

TEST_CASE("pooling of a channel block needs only that block") {
  const Shape shape{6, 4, 4, 4};
  const Box half{{2, 0, 0, 0}, {5, 2, 2, 2}};
  for (PoolingKind kind : {PoolingKind::kMax, PoolingKind::kAverage}) {
    LayerCase test = make_case("channels", kind, WindowOptions::cube(3, 2, PaddingKind::kSame),
                               shape, {1, 1, 1});
    test.cut.src_owned = {{Box{{0, 0, 0, 0}, {4, 4, 4, 4}}, Box{{4, 0, 0, 0}, {6, 4, 4, 4}}}};
    test.cut.dst_owned = {Box{{0, 0, 0, 0}, {1, 2, 2, 2}}, Box{{1, 0, 0, 0}, {6, 2, 2, 2}}};
    CHECK(expect_layer(test).moved > 0);
    const std::vector<Shape> src{shape};
    CHECK(test.make_layer()->needs(half, 0, src) == Box{{2, 0, 0, 0}, {5, 4, 4, 4}});
  }
}

TEST_CASE("the first of equal maxima gets the gradient, wherever the cut runs") {
  for (const WindowCase& w : window_cases())
    for (const PartGrid& grid : {PartGrid{1, 1, 1}, PartGrid{2, 3, 2}}) {
      LayerCase test = make_case(w.name, PoolingKind::kMax, w.window, {3, 7, 6, 8}, grid);
      test.src_value = [](float v) { return std::floor(2 * v); };  // four values: many ties
      expect_layer(test);
    }
}

// A layer on one part that is the whole mesh.
struct Whole {
  std::vector<Shape> src_shapes;
  std::unique_ptr<Layer> layer;
  Tensor src, dst, diff_dst, diff_src;

  Whole(std::unique_ptr<Layer> l, const Shape& shape) : src_shapes{shape}, layer(std::move(l)) {
    const Box in = Box::whole(shape), out = Box::whole(layer->dst_shape(src_shapes));
    LayerContext context;
    context.src_shapes = src_shapes;
    context.dst_shape = out.shape();
    context.boxes = {{in}, out, out};
    context.src_spans = {in};
    context.dst_span = out;
    context.dst_chunks = {out};
    layer->prepare(context, {});
    src = Tensor(in, 1);
    diff_src = Tensor(in, 1);
    dst = Tensor(out, 1);
    diff_dst = Tensor(out, 1);
  }
  void step() {
    const std::vector<AnyConstView> views{src.view()};
    layer->forward({}, views, dst.view(), dst.view().span);
    layer->backward_data({}, {views, dst.view()}, diff_dst.view(), 0, diff_src.view());
  }
};

TEST_CASE("a maximum over NaN is NaN, over minus infinity is the first") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (std::int64_t channels : {3, 16}) {
    for (std::int64_t place = 0; place < 8; ++place) {
      Whole pool(make_pooling(PoolingKind::kMax, WindowOptions::cube(2, 2, PaddingKind::kSame)),
                 {channels, 2, 2, 2});
      for (std::int64_t i = 0; i < 8 * channels; ++i) pool.src.view().data[i] = float(i % 5);
      for (std::int64_t c = 0; c < channels; ++c) {
        pool.src.view().data[place * channels + c] = kNan;
        pool.diff_dst.view().data[c] = 1;
      }
      pool.step();
      for (std::int64_t c = 0; c < channels; ++c) {
        CHECK(std::isnan(pool.dst.view().data[c]));
        CHECK(pool.diff_src.view().data[place * channels + c] == 1);
      }
    }
    Whole pool(make_pooling(PoolingKind::kMax, WindowOptions::cube(2, 2, PaddingKind::kSame)),
               {channels, 2, 2, 2});
    fill(pool.src.view(), pool.src.view().span, -kInf);
    fill(pool.diff_dst.view(), pool.diff_dst.view().span, 1);
    pool.step();
    CHECK(pool.dst.view().data[0] == -kInf);
    for (std::int64_t i = 0; i < 8 * channels; ++i)
      CHECK(pool.diff_src.view().data[i] == (i < channels ? 1 : 0));
  }
}

TEST_CASE("pooling: unsupported windows are refused, naming them") {
  // Taps at planes -1 and 4 of an input of three.
  const WindowOptions dilated{{1, 2, 1}, {1, 1, 1}, {1, 5, 1}, PaddingKind::kExplicit,
                              {0, 1, 0}, {0, 2, 0}};
  const std::vector<Shape> narrow{{1, 4, 3, 4}};
  CHECK_THROWS_WITH_AS(MaxPooling(dilated).dst_shape(narrow),
                       doctest::Contains("along axis 1: window 0 contains only padding"), Error);
  CHECK_THROWS_AS(AveragePooling(dilated).dst_shape(narrow), Error);
  WindowOptions large = WindowOptions::cube(2, 2, PaddingKind::kSame);
  large.kernel = {16, 4, 4};
  CHECK_THROWS_WITH_AS(MaxPooling{large}, "max pooling with a window of 16x4x4", Error);
  CHECK_NOTHROW(AveragePooling{large});
  large.kernel = {15, 17, 1};
  CHECK_NOTHROW(MaxPooling{large});
  const std::vector<Shape> two{{1, 4, 4, 4}, {1, 4, 4, 4}}, tiny{{1, 1, 4, 4}};
  const MaxPooling valid(WindowOptions::cube(2, 2, PaddingKind::kValid));
  CHECK_THROWS_AS(valid.dst_shape(two), Error);
  CHECK_THROWS_AS(valid.dst_shape(tiny), Error);
}

TEST_CASE("max poolings one behind the other leave the maximum of all") {
  for (const Spatial& extents : {Spatial{13, 1, 40}, Spatial{6, 6, 6}, Spatial{1, 7, 1}}) {
    std::vector<Shape> src{{2, extents[0], extents[1], extents[2]}};
    for (const WindowOptions& window : global_max_windows(extents)) {
      CHECK_NOTHROW(MaxPooling{window});
      expect_layer(make_case("global", PoolingKind::kMax, window, src[0], {2, 2, 1}));
      src[0] = MaxPooling(window).dst_shape(src);
    }
    CHECK(src[0] == Shape{2, 1, 1, 1});
  }
  CHECK(global_max_windows({1, 1, 1}).empty());
}

TEST_CASE("a window of 255 taps can record its last tap") {
  WindowOptions window{{15, 17, 1}, {15, 17, 1}, {1, 1, 1}, PaddingKind::kValid, {}, {}};
  LayerCase test = make_case("255 taps", PoolingKind::kMax, window, {2, 30, 34, 3}, {2, 2, 1});
  expect_layer(test);
  Whole pool(make_pooling(PoolingKind::kMax, window), {1, 15, 17, 1});
  pool.src.view().data[254] = 1;
  pool.diff_dst.view().data[0] = 1;
  pool.step();
  CHECK(pool.dst.view().data[0] == 1);
  CHECK(pool.diff_src.view().data[254] == 1);
}

}  // namespace
}  // namespace halomesh
