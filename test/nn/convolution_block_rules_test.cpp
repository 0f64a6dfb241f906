// SPDX-License-Identifier: Apache-2.0
// What a fused convolution block guarantees besides its results: NaN, ties, refusals, fast kernels.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "error.hpp"
#include "src/nn/kernels/pooled_activation.hpp"
#include "src/nn/onednn/library.hpp"
#include "test/harness/convolution_block_case.hpp"

namespace halomesh {
namespace {

// A block on one part that is the whole mesh, with one channel and a kernel of one element that is
// 1, so that it pools its input.
struct PoolsItsInput {
  std::vector<float> weight{1}, bias{0}, diff_weight{0}, diff_bias{0};
  ConvolutionBlock layer;
  Tensor src, dst, diff_dst, diff_src;

  /// Of this many consecutive windows along D.
  explicit PoolsItsInput(std::int64_t windows = 1, std::int64_t cache_bytes = 0)
      : layer({.window = WindowOptions::cube(1, 1, PaddingKind::kSame),
               .slope = 0.5F,
               .cache_bytes = cache_bytes}) {
    const Box in = Box::whole({1, 2 * windows, 2, 2}), out = Box::whole({1, windows, 1, 1});
    LayerContext context;
    context.src_shapes = {in.shape()};
    context.dst_shape = out.shape();
    context.boxes = {{in}, out, out};
    context.src_spans = {in};
    context.src_types = {DataType::kFloat32};
    context.dst_span = out;
    context.dst_chunks = {out};
    context.src_diff_wanted = {true};
    const std::vector<ParameterGeometry> geometry = layer.parameters(context.src_shapes);
    layer.prepare(context, {{geometry[0], geometry[0].whole(), weight, diff_weight},
                            {geometry[1], geometry[1].whole(), bias, diff_bias}});
    layer.load_parameters();
    src = Tensor(in, 1);
    diff_src = Tensor(in, 1);
    dst = Tensor(out, 1);
    diff_dst = Tensor(out, 1);
    diff_dst.view().data[0] = 1;
  }
  float step(const std::function<void()>& poll = {}) {
    const std::vector<AnyConstView> views{src.any_view()};
    const Pass pass{.training = true, .poll = poll ? &poll : nullptr};
    layer.forward(pass, views, dst.any_view(), dst.any_view().span);
    layer.backward_data(pass, {{}, dst.any_view()}, diff_dst.any_view(), 0, diff_src.any_view());
    layer.backward_parameters(pass, views, diff_dst.any_view());
    return dst.view().data[0];
  }
};

TEST_CASE("fused block: messages make progress after each piece, forward and backward") {
  PoolsItsInput block(7, 1);
  int polls = 0;
  block.step([&] { ++polls; });
  CHECK(polls >= 3 * 7);
  CHECK(polls <= 4 * 7);  // the data gradient's pieces may be of single planes
}

TEST_CASE("fused block: NaN wins its window, the first of equal elements gets the gradient") {
  for (std::int64_t place = 0; place < 8; ++place) {
    PoolsItsInput block;
    for (std::int64_t i = 0; i < 8; ++i) block.src.view().data[i] = static_cast<float>(i % 3);
    block.src.view().data[place] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(block.step()));
    CHECK(block.diff_src.view().data[place] == 0.5F);  // not above 0: the slope applies
    CHECK(block.diff_bias[0] == 0.5F);
  }
  PoolsItsInput block;
  for (const float value : {-4.0F, 4.0F}) {
    for (std::int64_t i = 0; i < 8; ++i) block.src.view().data[i] = i == 0 ? -8.0F : value;
    CHECK(block.step() == (value > 0 ? 4.0F : -2.0F));
    for (std::int64_t i = 0; i < 8; ++i)
      CHECK(block.diff_src.view().data[i] == (i != 1 ? 0 : value > 0 ? 1.0F : 0.5F));
  }
}

// Pools one window of 2x2x2, all of whose channels hold the same eight values.
template <class T>
struct OneWindow {
  std::vector<T> planes;
  std::vector<Bfloat16> dst;
  std::vector<std::uint8_t> argmax;

  OneWindow(std::int64_t channels, const std::array<float, 8>& values)
      : dst(static_cast<std::size_t>(channels)), argmax(static_cast<std::size_t>(channels)) {
    for (const float value : values) planes.insert(planes.end(), dst.size(), T(value));
    const Box box = Box::whole({channels, 1, 1, 1});
    const ConvolutionPlanes from{reinterpret_cast<std::byte*>(planes.data()),  // NOLINT: bytes
                                 DataTypeOf<T>::kType,
                                 {0, 2}};
    PooledActivation{{2, 2, 2}, 0.5F}.forward(
        from, box, 0, TensorView<Bfloat16>{dst.data(), box, 1}, Argmax{argmax.data(), box, 1});
  }
};

// 16 channels go through fp32; 32, when they are bf16, through integers; 53 through all paths.
TEST_CASE("pooled activation: NaN of either sign wins, at any position and number of channels") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::size_t seen = 0;
  for (const std::int64_t channels : {5, 16, 32, 53})
    for (const float nan : {kNan, -kNan})
      for (std::uint8_t place = 0; place < 8; ++place) {
        std::array<float, 8> values{-1, kInfinity, 3, -kInfinity, 0, 2, -5, kInfinity};
        values[place] = nan;
        const OneWindow<Bfloat16> half(channels, values);
        const OneWindow<float> full(channels, values);
        for (std::size_t c = 0; c < half.dst.size(); ++c, ++seen) {
          CHECK(std::isnan(static_cast<float>(half.dst[c])));
          CHECK(std::isnan(static_cast<float>(full.dst[c])));
          CHECK(half.argmax[c] == (place | kSlopeBit));
          CHECK(full.argmax[c] == (place | kSlopeBit));
        }
      }
  CHECK(seen == (5 + 16 + 32 + 53) * 16);
}

TEST_CASE("pooled activation rounds to the nearest bf16, ties to even, and knows the slope") {
  struct Row {
    float most, dst;
    std::uint8_t largest;
  };
  // bf16 from 1 on are 2^-7 apart.
  const std::array<Row, 7> rows{
      {{1 + 0x1p-8F, 1, 2},
       {1 + 0x3p-8F, 1 + 0x1p-6F, 2},
       {1 + 0x1p-8F + 0x1p-20F, 1 + 0x1p-7F, 2},
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity(), 2},
       {-1, -0.5F, 2 | kSlopeBit},
       {-(1 + 0x3p-8F), -(0.5F + 0x1p-7F), 2 | kSlopeBit},
       {0, 0, 2 | kSlopeBit}}};
  std::size_t seen = 0;
  for (const Row& row : rows)
    for (const std::int64_t channels : {5, 16, 32, 53}) {
      const std::array<float, 8> values{-9, -8, row.most, -7, row.most, -8, -9, -7};
      const OneWindow<float> full(channels, values);
      const OneWindow<Bfloat16> half(channels, values);
      for (std::size_t c = 0; c < full.dst.size(); ++c, ++seen) {
        CHECK(static_cast<float>(full.dst[c]) == row.dst);
        CHECK(full.argmax[c] == row.largest);
        // Rounded before the slope, here and after it: no tie is left.
        CHECK(static_cast<float>(half.dst[c]) == row.dst);
        CHECK(half.argmax[c] == row.largest);
      }
    }
  CHECK(seen == 7 * (5 + 16 + 32 + 53));
}

// A block of CosmoFlow on one part, prepared without values.
std::vector<std::string> implementations_of(std::size_t layer, std::int64_t kernel,
                                            std::int64_t extent, DataType compute,
                                            Range channels = {},
                                            GradientKernels kernels = GradientKernels::kDense) {
  constexpr std::array<std::int64_t, 6> kChannels{4, 32, 64, 128, 256, 512};
  ConvolutionBlockOptions options{kChannels[layer + 1],
                                  WindowOptions::cube(kernel, 1, PaddingKind::kSame)};
  options.compute = compute;
  options.kernels = kernels;
  options.cache_bytes = 1 << 16;  // several pieces
  ConvolutionBlock block(options);
  const Shape src{kChannels[layer], extent, extent, extent};
  LayerContext context;
  context.src_shapes = {src};
  context.src_types = {layer == 0 ? DataType::kInt16 : compute};
  context.dst_shape = block.dst_shape(context.src_shapes);
  Box dst = Box::whole(context.dst_shape);
  if (channels.extent() > 0) dst.lo[kC] = channels.lo, dst.hi[kC] = channels.hi;
  context.boxes = {{Box::whole(src)}, dst, dst};
  context.src_spans = {Box::whole(src)};
  context.dst_span = dst;
  context.dst_chunks = {with_d_range(dst, 0, dst.hi[kD] - 1),
                        with_d_range(dst, dst.hi[kD] - 1, dst.hi[kD])};
  context.src_diff_wanted = {layer > 0};
  std::vector<ParameterView> parameters;
  for (const ParameterGeometry& geometry : block.parameters(context.src_shapes))
    parameters.push_back({geometry, {{dst.lo[kC], dst.hi[kC]}, Box::whole(geometry.in)}, {}, {}});
  block.prepare(context, std::move(parameters));
  return block.implementations();
}

TEST_CASE("fused block: no layer of CosmoFlow falls to a reference kernel") {
  std::size_t seen = 0;
  for (const DataType compute : {DataType::kFloat32, DataType::kBfloat16}) {
    if (compute == DataType::kBfloat16 && !cpu_computes_bf16()) continue;
    for (const std::int64_t kernel : {2, 3})
      for (std::size_t layer = 0; layer < 5; ++layer) {
        const auto names = implementations_of(layer, kernel, std::int64_t{64} >> layer, compute);
        CHECK(names.size() >= (layer > 0 ? 3U : 2U));
        for (const std::string& name : names) {
          CHECK_MESSAGE(name.find("ref") == std::string::npos,
                        fmt::format("layer {}, kernel {}: {}", layer + 1, kernel, name));
          CHECK(name.find(name_of(compute)) != std::string::npos);
          ++seen;
        }
      }
  }
  CHECK(seen >= 2 * (4 * 3 + 2));
}

TEST_CASE("fused block: one vector of conv5's channels does not fall to a reference kernel") {
  std::size_t seen = 0;
  for (const DataType compute : {DataType::kFloat32, DataType::kBfloat16}) {
    if (compute == DataType::kBfloat16 && !cpu_computes_bf16()) continue;
    for (const std::int64_t kernel : {2, 3})
      for (const std::string& name : implementations_of(4, kernel, 8, compute, {48, 64})) {
        CHECK_MESSAGE(name.find("ref") == std::string::npos,
                      fmt::format("kernel {}: {}", kernel, name));
        ++seen;
      }
  }
  CHECK(seen >= 2 * 3);
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

TEST_CASE("fused block: gradients of CosmoFlow's layers are sparse unless dense is asked for") {
  for (const std::int64_t kernel : {2, 3})
    for (std::size_t layer = 1; layer < 5; ++layer) {
      CAPTURE(layer);
      for (const GradientKernels kernels : {GradientKernels::kAuto, GradientKernels::kSparse}) {
        const auto names = implementations_of(layer, kernel, std::int64_t{64} >> layer,
                                              DataType::kFloat32, {}, kernels);
        CHECK(has(names, "backward_data fp32 sparse:halomesh"));
        CHECK(has(names, "backward_weights fp32 sparse:halomesh"));
        CHECK(names.size() == 3);  // and forward
      }
      for (const std::string& name :
           implementations_of(layer, kernel, std::int64_t{64} >> layer, DataType::kFloat32))
        CHECK(name.find("sparse") == std::string::npos);
    }
}

TEST_CASE("fused block: forward of CosmoFlow's layers is Winograd's unless dense is asked for") {
  const std::string winograd = "forward fp32 winograd:halomesh";
  for (const std::int64_t kernel : {2, 3})
    for (std::size_t layer = 0; layer < 5; ++layer) {
      CAPTURE(layer);
      const std::int64_t extent = std::int64_t{128} >> layer;
      const auto names_of = [&](GradientKernels kernels, DataType compute = DataType::kFloat32) {
        return implementations_of(layer, kernel, extent, compute, {}, kernels);
      };
      for (const GradientKernels kernels :
           {GradientKernels::kAuto, GradientKernels::kSparse, GradientKernels::kWinograd})
        CHECK(has(names_of(kernels), winograd) == (layer > 0));
      CHECK_FALSE(has(names_of(GradientKernels::kDense), winograd));
      if (!cpu_computes_bf16()) continue;
      const std::string in_bf16 = "forward bf16 winograd:halomesh";
      CHECK(has(names_of(GradientKernels::kWinograd, DataType::kBfloat16), in_bf16) == (layer > 0));
      CHECK_FALSE(has(names_of(GradientKernels::kDense, DataType::kBfloat16), in_bf16));
      if (products_at_once(DataType::kBfloat16) == 1)
        CHECK(has(names_of(GradientKernels::kAuto, DataType::kBfloat16), in_bf16) == (layer > 0));
    }
  const auto few_windows =
      implementations_of(4, 3, 4, DataType::kFloat32, {}, GradientKernels::kAuto);
  CHECK_FALSE(has(few_windows, winograd));
}

TEST_CASE("fused block: where no sparse kernel fits, the library's are used") {
  for (const std::int64_t kernel : {4, 1, 2})
    CHECK_FALSE(has(implementations_of(kernel == 2 ? 0 : 2, kernel, 16, DataType::kFloat32, {},
                                       GradientKernels::kSparse),
                    "backward_weights fp32 sparse:halomesh"));
  sparse::Work pools_nothing;
  pools_nothing.taps = 8;
  CHECK(sparse::cost_of(pools_nothing, {}) > sparse::dense_cost_of(pools_nothing));
}

TEST_CASE("fused block: unsupported options are refused, naming them") {
  const auto with = [](const auto& set) {
    ConvolutionBlockOptions options{2, WindowOptions::cube(2, 1, PaddingKind::kSame)};
    set(options);
    ConvolutionBlock{options};
  };
  CHECK_THROWS_WITH_AS(with([](auto& o) { o.filters = 0; }), doctest::Contains("0 filters"), Error);
  CHECK_THROWS_WITH_AS(with([](auto& o) {
                         o.pool = {8, 8, 3};
                       }),
                       doctest::Contains("8x8x3"), Error);
  CHECK_THROWS_WITH_AS(with([](auto& o) { o.slope = -1; }), doctest::Contains("slope -1"), Error);
  CHECK_THROWS_WITH_AS(with([](auto& o) { o.compute = DataType::kInt16; }),
                       doctest::Contains("int16"), Error);
  const ConvolutionBlock layer({2, WindowOptions::cube(5, 1, PaddingKind::kValid)});
  const std::vector<Shape> small{{1, 4, 8, 8}}, no_pool{{1, 8, 5, 8}},
      two{{1, 8, 8, 8}, {1, 8, 8, 8}};
  CHECK_THROWS_WITH_AS(layer.dst_shape(small), doctest::Contains("extent of 4"), Error);
  CHECK_THROWS_WITH_AS(layer.dst_shape(no_pool), doctest::Contains("extent of 1"), Error);
  CHECK_THROWS_WITH_AS(layer.dst_shape(two), doctest::Contains("2 inputs"), Error);
  const std::vector<DataType> half{DataType::kBfloat16}, counts{DataType::kInt16};
  CHECK_THROWS_WITH_AS(layer.dst_type(half), doctest::Contains("fp32 given bf16"), Error);
  CHECK(layer.dst_type(counts) == DataType::kFloat32);
  BlockCase block = same_block(2, 2, {1, 4, 4, 4}, {1, 1, 1});
  block.src_type = DataType::kInt16;
  LayerCase test = layer_case(block);
  test.cut.src_diff_wanted = true;
  CHECK_THROWS_WITH_AS(check_layer(test), doctest::Contains("gradient of an input of int16"),
                       Error);
  BlockCase strided = same_block(2, 2, {1, 8, 8, 8}, {1, 1, 1});
  strided.options.compute = strided.src_type = DataType::kBfloat16;
  strided.options.window.stride = {1, 1, 2};
  CHECK_THROWS_WITH_AS(check_layer(layer_case(strided)), doctest::Contains("stride 1x1x2"), Error);
}

}  // namespace
}  // namespace halomesh
