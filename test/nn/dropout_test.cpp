// SPDX-License-Identifier: Apache-2.0
// Dropout's mask: a function of global positions, the same on any cut, drawn again by backward.
#include "src/nn/layers/dropout.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <set>
#include <vector>

#include "error.hpp"
#include "rng.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/layer_check.hpp"

namespace halomesh {
namespace {

constexpr Shape kShape{3, 5, 4, 6};

// Written from the definition: one 32-bit word per element, four per block of the generator,
// elements numbered through the global batch in n,d,h,w,c order.
bool is_kept(const Pass& pass, std::uint32_t layer, double p, std::uint64_t element) {
  const CounterRng rng(pass.seed, RandomUse::kDropout, static_cast<std::uint32_t>(pass.step),
                       layer);
  const double uniform = static_cast<double>(rng.block(element / 4)[element % 4] >> 8) * 0x1p-24;
  return uniform >= p;
}

Reference reference(double p, bool whole_channels = false) {
  return [=](const ReferenceInput& in) {
    ReferenceOutput out;
    const std::size_t size = in.src[0].values.size();
    out.dst = Estimate(size);
    out.diff_src.emplace_back(size);
    const bool active = in.pass.training && p > 0;
    const auto volume = static_cast<std::uint64_t>(in.src[0].shape.volume()),
               channels = static_cast<std::uint64_t>(in.src[0].shape.c),
               first = static_cast<std::uint64_t>(in.pass.first_sample);
    for (std::size_t i = 0; i < size; ++i) {
      const std::uint64_t draw =
          whole_channels ? (first + i / volume) * channels + i % channels : first * volume + i;
      const double scale = !active ? 1.0 : (is_kept(in.pass, 0, p, draw) ? 1.0 / (1.0 - p) : 0.0);
      out.dst.add(i, in.src[0].values[i], scale);
      out.diff_src[0].add(i, in.diff_dst.values[i], scale);
    }
    out.dst.terms = out.diff_src[0].terms = active ? 2 : 0;  // the rounded scale and its product
    return out;
  };
}

TEST_CASE("dropout draws the same mask on any cut") {
  for (double p : {0.0, 0.1, 0.5})
    for (bool training : {true, false})
      for (const PartGrid& grid : {PartGrid{1, 1, 1}, PartGrid{3, 1, 1}, PartGrid{1, 1, 4},
                                   PartGrid{2, 2, 2}, PartGrid{7, 1, 2}}) {
        LayerCase test;
        test.name = fmt::format("dropout {:g} on {}", p, to_string(grid));
        test.make_layer = [p] { return std::make_unique<Dropout>(p); };
        test.cut.src_shapes = {kShape};
        test.cut.grid = grid;
        test.cut.batch = 2;
        test.reference = reference(p);
        test.pass = {training, 0x123456789ABCDEFull, 17, 6};
        test.repeat = true;
        expect_layer(test);
        test.cut.src_margin = test.cut.dst_margin = {1, 1, 0};
        expect_layer(test);
        // A cut through the channels: a part's first channel is not the first of the pixel.
        test.cut.src_margin = test.cut.dst_margin = {};
        test.cut.dst_owned = {Box{{0, 0, 0, 0}, {1, 5, 4, 6}}, Box{{1, 0, 0, 0}, {3, 5, 4, 6}}};
        test.cut.src_owned = {test.cut.dst_owned};
        expect_layer(test);
      }
}

TEST_CASE("dropout of whole channels, and in bf16, draws the same mask on any cut") {
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16})
    for (const bool whole_channels : {true, false})
      for (const PartGrid& grid : {PartGrid{1, 1, 1}, PartGrid{3, 1, 1}, PartGrid{2, 2, 2}}) {
        LayerCase test;
        test.make_layer = [=] { return std::make_unique<Dropout>(0.375, type, whole_channels); };
        test.name = fmt::format("{} on {}", test.make_layer()->kernel_name(), to_string(grid));
        test.cut.src_shapes = {kShape};
        test.cut.src_types = {type};
        test.cut.grid = grid;
        test.cut.batch = 2;
        test.reference = reference(0.375, whole_channels);
        test.pass = {true, 0x123456789ABCDEFull, 17, 6};
        test.repeat = true;
        if (type == DataType::kBfloat16) {
          test.reference = in_bfloat16(test.reference, 1, 1);
          test.src_value =
              test.diff_value = [](float v) { return static_cast<float>(Bfloat16(v)); };
        }
        expect_layer(test);
        test.cut.dst_owned = channel_blocks(kShape, {1, 3});
        test.cut.src_owned = {test.cut.dst_owned};
        expect_layer(test);
      }
}

// The mask of a layer that is the whole mesh: what passes where the input is 1.
std::vector<float> mask(const Pass& pass, std::uint32_t layer, std::int64_t batch, double p) {
  const Shape shape{64, 1, 1, 1};
  const Box whole = Box::whole(shape);
  Dropout dropout(p);
  LayerContext context;
  context.index = layer;
  context.src_shapes = {shape};
  context.dst_shape = shape;
  context.boxes = {{whole}, whole, whole};
  context.src_spans = {whole};
  context.dst_span = whole;
  context.batch = batch;
  dropout.prepare(context, {});
  Tensor src(whole, batch), dst(whole, batch);
  for (std::int64_t i = 0; i < batch * 64; ++i) src.view().data[i] = 1;
  const std::vector<AnyConstView> views{src.view()};
  dropout.forward(pass, views, dst.view(), whole);
  return {dst.view().data, dst.view().data + batch * 64};
}

TEST_CASE("a sample has the same mask in any local batch") {
  const std::vector<float> all = mask({true, 3, 5, 0}, 2, 4, 0.5);
  std::vector<float> pieces = mask({true, 3, 5, 0}, 2, 1, 0.5);
  for (std::int64_t first : {1, 3}) {
    const std::vector<float> more = mask({true, 3, 5, first}, 2, first == 1 ? 2 : 1, 0.5);
    pieces.insert(pieces.end(), more.begin(), more.end());
  }
  CHECK(all.size() == 256);
  CHECK(pieces == all);
}

TEST_CASE("masks differ between seeds, steps, layers and samples") {
  std::set<std::vector<float>> masks;
  for (std::uint64_t seed : {1ull, 2ull, 1ull << 32})
    for (std::int64_t step : {0, 1, 2})
      for (std::uint32_t layer : {0u, 1u, 2u})
        for (std::int64_t sample : {0, 1, 2})
          masks.insert(mask({true, seed, step, sample}, layer, 1, 0.5));
  CHECK(masks.size() == 81);
}

TEST_CASE("dropout keeps the expected fraction") {
  for (double p : {0.1, 0.5, 0.9}) {
    const std::int64_t samples = 1024;
    const double n = static_cast<double>(samples) * 64;
    double kept = 0, wrong = 0;
    for (float v : mask({true, 9, 0, 0}, 1, samples, p)) {
      kept += v != 0;
      wrong += v != 0 && v != static_cast<float>(1 / (1 - p));
    }
    CHECK(wrong == 0);
    // Five standard deviations of the binomial distribution.
    CHECK(std::abs(kept - n * (1 - p)) < 5 * std::sqrt(n * p * (1 - p)));
  }
}

TEST_CASE("dropout refuses values that are not a probability below 1") {
  for (double p : {-0.1, 1.0, std::nan("")}) CHECK_THROWS_AS(Dropout{p}, Error);
}

}  // namespace
}  // namespace halomesh
