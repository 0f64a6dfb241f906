// SPDX-License-Identifier: Apache-2.0
// Layers that mix or scale channels (affine, norms of voxels, global average) on any cut against
// naive loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "error.hpp"
#include "src/nn/layers/affine.hpp"
#include "src/nn/layers/channel_normalize.hpp"
#include "src/nn/layers/global_average.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/layer_check.hpp"

namespace halomesh {
namespace {

constexpr PartGrid kGrids[] = {{1, 1, 1}, {3, 1, 1}, {1, 2, 1}, {1, 1, 4}, {2, 2, 2}, {9, 1, 2}};
constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBfloat16};
constexpr Shape kShape{5, 7, 4, 6};

template <class MakeLayer>
LayerCase channel_case(const MakeLayer& make, const Reference& reference, DataType type) {
  LayerCase test;
  test.name = fmt::format("{}", make()->kernel_name());
  test.make_layer = make;
  test.cut.src_shapes = {kShape};
  test.cut.src_types = {type};
  test.cut.batch = 2;
  test.reference = reference;
  test.linear = true;
  test.repeat = true;
  if (type == DataType::kBfloat16) {
    test.reference = in_bfloat16(reference, 1, 1);
    test.src_value = test.diff_value = [](float v) { return static_cast<float>(Bfloat16(v)); };
  }
  return test;
}

Reference affine_reference(bool weight = true, bool bias = true) {
  return [=](const ReferenceInput& in) {
    const GlobalTensor &x = in.src[0], &y = in.diff_dst;
    ReferenceOutput out{Estimate(y.values.size()), {Estimate(x.values.size())}, {}};
    const auto channels = static_cast<std::size_t>(x.shape.c);
    out.diff_parameters.assign(in.parameters.size(), Estimate(channels));
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      const std::size_t c = i % channels;
      const double w = weight ? in.parameters[0][c] : 1;
      out.dst.add(i, w, x.values[i]);
      out.diff_src[0].add(i, w, y.values[i]);
      if (weight) out.diff_parameters[0].add(c, x.values[i], y.values[i]);
      if (!bias) continue;
      out.dst.add(i, in.parameters.back()[c]);
      out.diff_parameters.back().add(c, y.values[i]);
    }
    out.dst.terms = 2;
    out.diff_src[0].terms = 1;
    // Sums in double, each rounded once, and one addition per part.
    for (Estimate& diff : out.diff_parameters) diff.terms = 2 * 18;
    return out;
  };
}

TEST_CASE("an affine layer scales and shifts each channel on any cut") {
  for (const DataType type : kTypes) {
    const auto make = [type] { return std::make_unique<Affine>(type); };
    LayerCase test = channel_case(make, affine_reference(), type);
    expect_on_all_cuts(test, kGrids);
    test.cut.grid = {2, 1, 1};
    test.cut.src_owned = {channel_blocks(kShape, {4, 5})};
    test.cut.dst_owned = channel_blocks(kShape, {1, 5});
    for (const bool spans_all : {true, false}) {
      test.cut.dst_spans_all_channels = spans_all;
      CHECK(expect_layer(test).moved > 0);
    }
  }
  for (const bool weight : {true, false}) {
    const auto make = [=] { return std::make_unique<Affine>(kTypes[0], weight, !weight); };
    LayerCase test = channel_case(make, affine_reference(weight, !weight), kTypes[0]);
    test.linear = weight;  // the bias is no factor of the output
    expect_on_all_cuts(test, kGrids);
  }
  const Affine layer;
  const std::vector<Shape> src{kShape}, two{kShape, kShape};
  CHECK(layer.parameters(src)[0].initial.kind == InitialValues::Kind::kConstant);
  CHECK(layer.parameters(src)[0].initial.constant == 1.0F);
  CHECK_THROWS_AS(layer.dst_shape(two), Error);
  const std::vector<DataType> half{DataType::kBfloat16};
  CHECK_THROWS_WITH_AS(layer.dst_type(half), doctest::Contains("given bf16"), Error);
}

using ChannelNorm = ChannelNormalizeOptions::Kind;

// With the gradients of textbooks: those of the mean and of the divisor are written out.
Reference channel_norm_reference(const ChannelNormalizeOptions& o) {
  return [o](const ReferenceInput& in) {
    const GlobalTensor &x = in.src[0], &y = in.diff_dst;
    const auto channels = static_cast<std::size_t>(x.shape.c);
    ReferenceOutput out{Estimate(y.values.size()), {Estimate(x.values.size())}, {}};
    out.diff_parameters.assign(in.parameters.size(), Estimate(channels));
    const double count = static_cast<double>(channels), epsilon = static_cast<double>(o.epsilon);
    for (std::size_t first = 0; first < x.values.size(); first += channels) {
      const auto sum = [&](const auto& term) {
        double s = 0;
        for (std::size_t c = 0; c < channels; ++c) s += term(c, x.values[first + c]);
        return s;
      };
      const double mean =
          o.kind == ChannelNorm::kLayer ? sum([](auto, double v) { return v; }) / count : 0;
      const double squares = sum([&](auto, double v) { return (v - mean) * (v - mean); });
      const bool norm = o.kind == ChannelNorm::kNorm;
      const double divisor =
          norm ? std::max(std::sqrt(squares), epsilon) : std::sqrt(squares / count + epsilon);
      // The derivative of the divisor with respect to an element is this times (element - mean).
      const double slope =
          norm ? (std::sqrt(squares) > epsilon ? 1 / divisor : 0) : 1 / (count * divisor);
      const auto g = [&](std::size_t c) {
        return (o.weight ? in.parameters[0][c] : 1) * y.values[first + c];
      };
      const double all = sum([&](std::size_t c, double) { return g(c); });
      const double with = sum([&](std::size_t c, double v) { return g(c) * (v - mean); });
      for (std::size_t c = 0; c < channels; ++c) {
        const std::size_t i = first + c;
        const double normal = (x.values[i] - mean) / divisor;
        out.dst.add(i, o.weight ? in.parameters[0][c] : 1, normal);
        if (o.bias) out.dst.add(i, in.parameters.back()[c]);
        out.diff_src[0].add(i, g(c) / divisor);
        out.diff_src[0].add(i, o.kind == ChannelNorm::kLayer ? -all / count / divisor : 0);
        out.diff_src[0].add(i, -with * slope * normal / divisor);
        if (o.weight) out.diff_parameters[0].add(c, normal, y.values[i]);
        if (o.bias) out.diff_parameters.back().add(c, y.values[i]);
      }
    }
    out.dst.terms = out.diff_src[0].terms = 1 + 0x1p-18;
    for (Estimate& diff : out.diff_parameters) diff.terms = 2 * 18;
    return out;
  };
}

TEST_CASE("a normalization over the channels of each voxel equals its formula on any cut") {
  for (const DataType type : kTypes)
    for (const ChannelNorm kind :
         {ChannelNorm::kLayer, ChannelNorm::kRootMeanSquare, ChannelNorm::kNorm})
      for (const auto& [weight, bias] : {std::pair{true, true}, {true, false}, {false, false}}) {
        // Some norms are below the second epsilon.
        for (const float epsilon : {1e-5F, 1.25F}) {
          const ChannelNormalizeOptions o{kind, epsilon, weight, bias, type};
          const auto make = [=] { return std::make_unique<ChannelNormalize>(o); };
          LayerCase test = channel_case(make, channel_norm_reference(o), type);
          test.linear = false;
          expect_on_all_cuts(test, kGrids);
        }
      }
  const ChannelNormalize layer({});
  const std::vector<Shape> src{kShape};
  CHECK(!layer.splits_over_channels());
  CHECK(layer.needs(Box{{0, 1, 2, 3}, {5, 2, 4, 6}}, 0, src) == Box{{0, 1, 2, 3}, {5, 2, 4, 6}});
  CHECK_THROWS_AS(ChannelNormalize({ChannelNorm::kLayer, 0}), Error);
  const std::vector<DataType> half{DataType::kBfloat16};
  CHECK_THROWS_WITH_AS(layer.dst_type(half), doctest::Contains("given bf16"), Error);
}

// The gradient is the product with the matrix of derivatives.
Reference softmax_reference(bool logarithm) {
  return [=](const ReferenceInput& in) {
    const GlobalTensor &x = in.src[0], &y = in.diff_dst;
    const auto channels = static_cast<std::size_t>(x.shape.c);
    ReferenceOutput out{Estimate(y.values.size()), {Estimate(x.values.size())}, {}};
    for (std::size_t first = 0; first < x.values.size(); first += channels) {
      double total = 0;
      for (std::size_t c = 0; c < channels; ++c) total += std::exp(x.values[first + c]);
      const auto p = [&](std::size_t c) { return std::exp(x.values[first + c]) / total; };
      for (std::size_t c = 0; c < channels; ++c) {
        out.dst.add(first + c, logarithm ? std::log(p(c)) : p(c));
        for (std::size_t o = 0; o < channels; ++o) {
          const double slope = (o == c ? 1 : 0) - p(c);
          out.diff_src[0].add(first + c, logarithm ? slope : p(o) * slope, y.values[first + o]);
        }
      }
    }
    out.dst.terms = out.diff_src[0].terms = 1 + 0x1p-18;
    return out;
  };
}

TEST_CASE("a softmax over the channels of each voxel equals its formula on any cut") {
  for (const DataType type : kTypes)
    for (const ChannelNorm kind : {ChannelNorm::kSoftmax, ChannelNorm::kLogSoftmax}) {
      const ChannelNormalizeOptions o{kind, 1, false, false, type};
      const auto make = [=] { return std::make_unique<ChannelNormalize>(o); };
      LayerCase test =
          channel_case(make, softmax_reference(kind == ChannelNorm::kLogSoftmax), type);
      test.linear = false;
      expect_on_all_cuts(test, kGrids);
    }
  CHECK_THROWS_AS(ChannelNormalize({ChannelNorm::kSoftmax, 1, true, false}), Error);
}

Reference average_reference() {
  return [](const ReferenceInput& in) {
    const GlobalTensor &x = in.src[0], &y = in.diff_dst;
    ReferenceOutput out{Estimate(y.values.size()), {Estimate(x.values.size())}, {}};
    const auto channels = static_cast<std::size_t>(x.shape.c);
    const auto volume = static_cast<std::size_t>(x.shape.volume());
    const double weight = static_cast<double>(channels) / static_cast<double>(volume);
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      const std::size_t at = i / volume * channels + i % channels;
      out.dst.add(at, x.values[i], weight);
      out.diff_src[0].add(i, y.values[at], weight);
    }
    // Sums in double, each rounded once, and one addition per part; the weight and a product.
    out.dst.terms = 2 * 18;
    out.diff_src[0].terms = 2;
    return out;
  };
}

TEST_CASE("a global average is the mean over all parts on any cut") {
  for (const DataType type : kTypes) {
    const auto make = [type] { return std::make_unique<GlobalAverage>(type); };
    LayerCase test = channel_case(make, average_reference(), type);
    expect_on_all_cuts(test, kGrids);
    // Parts that hold some channels, and a part that holds nothing.
    test.cut.grid = {3, 1, 1};
    Partition owned = channel_blocks(kShape, {2, 5});
    owned.emplace_back();
    test.cut.src_owned = {owned};
    CHECK(expect_layer(test).moved > 0);
  }
  const GlobalAverage layer;
  const std::vector<Shape> src{kShape}, two{kShape, kShape};
  CHECK(layer.dst_shape(src) == Shape{5, 1, 1, 1});
  CHECK_THROWS_AS(layer.dst_shape(two), Error);
  const std::vector<DataType> half{DataType::kBfloat16};
  CHECK_THROWS_WITH_AS(layer.dst_type(half), doctest::Contains("given bf16"), Error);
  CHECK(GlobalAverage(DataType::kBfloat16).dst_type(half) == DataType::kFloat32);
}

}  // namespace
}  // namespace halomesh
