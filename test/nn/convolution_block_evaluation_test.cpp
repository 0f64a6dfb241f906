// SPDX-License-Identifier: Apache-2.0
// Evaluation computes what the forward pass of training does, bit for bit, although it records no
// argmax: the pooling kernels, and whole blocks of few and of many channels, cut or not.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "rng.hpp"
#include "src/nn/kernels/convolution_block.hpp"
#include "src/nn/onednn/library.hpp"

namespace halomesh {
namespace {

constexpr float kSlope = 0.3F;
constexpr std::array kTypes{DataType::kFloat32, DataType::kBfloat16};

// Calls body(value i) for small multiples of 1/16, and one in `rarity` times for an extreme.
template <class Body>
void for_each_value(std::int64_t count, std::uint32_t stream, std::uint32_t rarity,
                    const Body& body) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::array<float, 8> extremes{
      std::bit_cast<float>(0x7fc10000U),  // NaN of both signs
      std::bit_cast<float>(0xffe20000U),   kInfinity, -kInfinity, -kInfinity, 0.0F, -0.0F,
      std::numeric_limits<float>::lowest()};
  const CounterRng rng(41, RandomUse::kSynth, stream);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = rng.block(static_cast<std::uint64_t>(i));
    const float step = static_cast<float>(static_cast<int>(bits[0] % 65) - 40) / 16;
    body(i, bits[1] % rarity == 0 ? extremes[bits[2] % 8] : step);
  }
}

void fill(AnyView to, std::uint32_t stream, std::uint32_t rarity) {
  for_each_value(to.span.volume() * to.batch, stream, rarity, [&](std::int64_t i, float value) {
    if (to.type == DataType::kBfloat16)
      to.as<Bfloat16>().data[i] = Bfloat16(value);
    else
      to.as<float>().data[i] = value;
  });
}

float value_at(AnyConstView view, std::int64_t i) {
  return view.type == DataType::kBfloat16 ? static_cast<float>(view.as<Bfloat16>().data[i])
                                          : view.as<float>().data[i];
}

// How many results of each kind were compared.
struct Seen {
  std::int64_t nan = 0, infinite = 0, finite = 0;
};

void expect_same_bits(AnyConstView training, AnyConstView evaluation, Seen& seen) {
  REQUIRE(training.span == evaluation.span);
  const auto bytes = static_cast<std::size_t>(training.sample_bytes() * training.batch);
  CHECK(std::memcmp(training.data, evaluation.data, bytes) == 0);
  for (std::int64_t i = 0; i < training.span.volume() * training.batch; ++i) {
    const float value = value_at(training, i);
    ++(std::isnan(value) ? seen.nan : std::isinf(value) ? seen.infinite : seen.finite);
  }
}

// The largest of a window by naive loops, rounded to the type of the result; NaN if there is any.
float pooled(AnyConstView planes, const Spatial& pool, const std::array<std::int64_t, 4>& at,
             DataType type) {
  const Box& span = planes.span;
  float best = -std::numeric_limits<float>::infinity();
  for (std::int64_t d = 0; d < pool[0]; ++d)
    for (std::int64_t h = 0; h < pool[1]; ++h)
      for (std::int64_t w = 0; w < pool[2]; ++w) {
        const ConstView index{nullptr, span, 1};
        const float value = value_at(
            planes,
            index.offset(0, at[0], at[1] * pool[0] + d, at[2] * pool[1] + h, at[3] * pool[2] + w));
        if (std::isnan(value) || std::isnan(best))
          best = std::numeric_limits<float>::quiet_NaN();
        else
          best = std::max(best, value);
      }
  const float active = best > 0 ? best : best * kSlope;
  return type == DataType::kBfloat16 ? static_cast<float>(Bfloat16(active)) : active;
}

void expect_pooled(AnyConstView planes, const Spatial& pool, const Box& box, AnyConstView dst) {
  const ConstView index{nullptr, dst.span, 1};
  for (std::int64_t d = 0; d < box.extent(kD); ++d)
    for (std::int64_t h = 0; h < box.extent(kH); ++h)
      for (std::int64_t w = 0; w < box.extent(kW); ++w)
        for (std::int64_t c = 0; c < box.extent(kC); ++c) {
          const float expected = pooled(planes, pool, {c, d, h, w}, dst.type);
          const float got = value_at(
              dst, index.offset(0, box.lo[kC] + c, box.lo[kD] + d, box.lo[kH] + h, box.lo[kW] + w));
          if (std::isnan(expected))
            CHECK(std::isnan(got));
          else
            CHECK(got == expected);
        }
}

TEST_CASE("pooling without argmax gives the same bits as with it") {
  constexpr std::array<std::int64_t, 9> kChannels{1, 3, 16, 17, 31, 32, 33, 47, 67};
  constexpr std::array<Spatial, 6> kPools{
      {{2, 2, 2}, {1, 1, 1}, {1, 2, 3}, {3, 2, 1}, {2, 1, 4}, {3, 3, 3}}};
  Seen seen;
  std::uint32_t stream = 0;
  for (const std::int64_t channels : kChannels)
    for (const Spatial& pool : kPools)
      for (const DataType type : kTypes)
        for (const DataType dst_type : kTypes) {
          CAPTURE(channels);
          CAPTURE(pool);
          // The tensor has more channels and pixels than are written: as where others write them.
          const Box box{{2, 1, 1, 2}, {channels + 2, 3, 4, 5}};
          const Box span{{1, 0, 1, 0}, {channels + 5, 3, 5, 6}};
          Tensor planes(Box::whole({channels, 2 * pool[0], 3 * pool[1], 3 * pool[2]}), 1, type);
          fill(planes.any_view(), ++stream, 16);
          Tensor training(span, 1, dst_type), evaluation(span, 1, dst_type);
          std::vector<std::uint8_t> won(static_cast<std::size_t>(box.volume()));
          const PooledActivation activation{pool, kSlope};
          const ConvolutionPlanes from{
              planes.any_view().data, type, {pool[0], 3 * pool[0]}};  // those under the box
          activation.forward(from, box, 0, training.any_view(), {won.data(), box, 1});
          activation.forward(from, box, 0, evaluation.any_view(), {});
          expect_pooled(planes.any_view(), pool, box, evaluation.any_view());
          expect_same_bits(training.any_view(), evaluation.any_view(), seen);
        }
  CHECK(seen.nan > 1000);
  CHECK(seen.infinite > 1000);
  CHECK(seen.finite > 10000);
}

struct BlockPlace {
  ConvolutionBlockOptions options;
  Shape src;
  Box produced;
};

// The output of one block prepared for training or not.
Tensor forward(const BlockPlace& block, bool prepared_for_training, bool training) {
  ConvolutionBlock layer(block.options);
  const Box whole = Box::whole(block.src);
  LayerContext context;
  context.src_shapes = {block.src};
  context.dst_shape = layer.dst_shape(context.src_shapes);
  context.boxes = {
      {layer.needs(block.produced, 0, context.src_shapes)}, block.produced, block.produced};
  context.src_spans = {whole};
  context.dst_span = Box::whole(context.dst_shape);
  context.dst_chunks = {block.produced};
  context.src_types = {block.options.compute};
  context.dst_type = block.options.dst;
  context.training = prepared_for_training;
  context.src_diff_wanted = {true};
  const Range rows{block.produced.lo[kC], block.produced.hi[kC]};
  std::vector<std::vector<float>> memory;
  std::vector<ParameterView> parameters;
  memory.reserve(4);
  for (const ParameterGeometry& geometry : layer.parameters(context.src_shapes)) {
    const ParameterSlice slice{rows, Box::whole(geometry.in)};
    std::vector<float>& values = memory.emplace_back();
    for_each_value(slice.volume(), 1, 1U << 31U,
                   [&](std::int64_t, float value) { values.push_back(value); });
    std::vector<float>& diffs = memory.emplace_back(values.size());
    parameters.push_back({geometry, slice, values, diffs});
  }
  layer.prepare(context, parameters);
  layer.load_parameters();
  Tensor src(whole, 1, block.options.compute), dst(context.dst_span, 1, block.options.dst);
  fill(src.any_view(), 2, 200);
  const std::vector<AnyConstView> views{src.any_view()};
  layer.forward({training, 0, 0, 0}, views, dst.any_view(), block.produced);
  return dst;
}

// Blocks of few input channels have kernels of their own; those of more pool the library's planes,
// or, of whole vectors of channels, are computed by Winograd's filtering.
TEST_CASE("a block evaluates to the same bits as in training") {
  Seen seen;
  for (const std::int64_t channels : {3, 20, 32})
    for (const std::int64_t filters : {5, 33, 48})
      for (const Spatial& pool : {Spatial{2, 2, 2}, Spatial{1, 2, 3}})
        for (const DataType compute : kTypes) {
          if (compute == DataType::kBfloat16 && !cpu_computes_bf16()) continue;
          BlockPlace block;
          block.options.filters = filters;
          block.options.window = WindowOptions::cube(2, 1, PaddingKind::kSame);
          block.options.pool = pool;
          block.options.slope = kSlope;
          block.options.kernels = GradientKernels::kWinograd;
          block.options.compute = block.options.dst = compute;
          block.src = {channels, 8, 9, 12};
          const Shape dst = ConvolutionBlock(block.options).dst_shape(std::array{block.src});
          const Box whole = Box::whole(dst);
          Box in_space = whole, of_channels = whole;
          in_space.lo[kD] = 1;
          in_space.hi[kH] = 2;
          of_channels.lo[kC] = 2;
          of_channels.hi[kC] = filters - 1;
          for (const Box& produced : {whole, in_space, of_channels}) {
            CAPTURE(produced);
            block.produced = produced;
            const Tensor training = forward(block, true, true);
            expect_same_bits(training.any_view(), forward(block, true, false).any_view(), seen);
            expect_same_bits(training.any_view(), forward(block, false, false).any_view(), seen);
          }
        }
  CHECK(seen.nan > 1000);
  CHECK(seen.infinite > 1000);
  CHECK(seen.finite > 10000);
}

}  // namespace
}  // namespace halomesh
