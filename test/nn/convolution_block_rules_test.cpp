// What a fused convolution block promises beside its results: NaN, ties, refusals, fast kernels.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "error.hpp"
#include "test/harness/convolution_block_case.hpp"

namespace halomesh {
namespace {

// A block on one part that is the whole mesh, with one channel and a kernel of one element that is
// 1, so that it pools its input.
struct PoolsItsInput {
  std::vector<float> weight{1}, bias{0}, diff_weight{0}, diff_bias{0};
  ConvolutionBlock layer{{1, WindowOptions::cube(1, 1, PaddingKind::kSame), {2, 2, 2}, 0.5F}};
  Tensor src, dst, diff_dst, diff_src;

  PoolsItsInput() {
    const Box in = Box::whole({1, 2, 2, 2}), out = Box::whole({1, 1, 1, 1});
    LayerPlace place;
    place.src_shapes = {in.shape()};
    place.dst_shape = out.shape();
    place.boxes = {{in}, out, out};
    place.src_spans = {in};
    place.src_types = {DataType::kFloat32};
    place.dst_span = out;
    place.dst_chunks = {out};
    place.src_diff_wanted = {true};
    const std::vector<ParameterGeometry> geometry = layer.parameters(place.src_shapes);
    layer.prepare(place, {{geometry[0], Box::whole(geometry[0].in), weight, diff_weight},
                          {geometry[1], Box::whole(geometry[1].in), bias, diff_bias}});
    layer.load_parameters();
    src = Tensor(in, 1);
    diff_src = Tensor(in, 1);
    dst = Tensor(out, 1);
    diff_dst = Tensor(out, 1);
    diff_dst.view().data[0] = 1;
  }
  float step() {
    const std::vector<AnyConstView> views{src.any_view()};
    layer.forward({}, views, dst.any_view(), dst.any_view().span);
    layer.backward_data({}, views, dst.any_view(), diff_dst.any_view(), 0, diff_src.any_view());
    layer.backward_parameters({}, views, diff_dst.any_view());
    return dst.view().data[0];
  }
};

TEST_CASE("fused block: NaN wins its window, the first of equal elements gets the gradient") {
  for (std::int64_t place = 0; place < 8; ++place) {
    PoolsItsInput block;
    for (std::int64_t i = 0; i < 8; ++i) block.src.view().data[i] = static_cast<float>(i % 3);
    block.src.view().data[place] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(block.step()));
    CHECK(block.diff_src.view().data[place] == 0.5F);  // not above 0: the slope
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

// A block of CosmoFlow on one part, prepared without values.
std::vector<std::string> implementations_of(std::size_t layer, std::int64_t kernel,
                                            std::int64_t extent, DataType compute) {
  constexpr std::array<std::int64_t, 6> kChannels{4, 32, 64, 128, 256, 512};
  ConvolutionBlockOptions options{kChannels[layer + 1],
                                  WindowOptions::cube(kernel, 1, PaddingKind::kSame)};
  options.compute = compute;
  options.cache_bytes = 1 << 16;  // several pieces
  ConvolutionBlock block(options);
  const Shape src{kChannels[layer], extent, extent, extent};
  LayerPlace place;
  place.src_shapes = {src};
  place.src_types = {layer == 0 ? DataType::kInt16 : compute};
  place.dst_shape = block.dst_shape(place.src_shapes);
  const Box dst = Box::whole(place.dst_shape);
  place.boxes = {{Box::whole(src)}, dst, dst};
  place.src_spans = {Box::whole(src)};
  place.dst_span = dst;
  place.dst_chunks = {with_d_range(dst, 0, dst.hi[kD] - 1),
                      with_d_range(dst, dst.hi[kD] - 1, dst.hi[kD])};
  place.src_diff_wanted = {layer > 0};
  std::vector<ParameterView> parameters;
  for (const ParameterGeometry& geometry : block.parameters(place.src_shapes))
    parameters.push_back({geometry, Box::whole(geometry.in), {}, {}});
  block.prepare(place, std::move(parameters));
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
                        cat("layer ", layer + 1, ", kernel ", kernel, ": ", name));
          CHECK(name.find(name_of(compute)) != std::string::npos);
          ++seen;
        }
      }
  }
  CHECK(seen >= 2 * (4 * 3 + 2));
}

TEST_CASE("fused block: what is not supported is refused by name") {
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
