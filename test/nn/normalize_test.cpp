// SPDX-License-Identifier: Apache-2.0
// The two layers of instance and group normalization, each on any cut against naive loops; and the
// textbook gradient that they are compared with over ranks against difference quotients.
#include "src/nn/layers/normalize.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "error.hpp"
#include "rng.hpp"
#include "src/nn/kernels/moments.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/layer_check.hpp"
#include "test/harness/norm_reference.hpp"

namespace halomesh {
namespace {

constexpr PartGrid kGrids[] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 2}, {2, 2, 1}, {2, 2, 2}, {9, 1, 2}};
constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBfloat16};
constexpr Shape kShape{6, 7, 4, 5};
constexpr float kEpsilon = 0x1p-10F;
// An error of fp64 in units of fp32's, for some 2^9 additions.
constexpr double kDouble = 0x1p-20;

LayerCase norm_case(std::function<std::unique_ptr<Layer>()> make, const Reference& reference,
                    DataType type) {
  LayerCase test;
  test.name = make()->kernel_name();
  test.make_layer = std::move(make);
  test.cut.src_shapes = {kShape};
  test.cut.src_types = {type};
  test.cut.batch = 2;
  test.reference = reference;
  test.repeat = true;
  if (type == DataType::kBfloat16)
    test.src_value = [](float v) { return static_cast<float>(Bfloat16(v)); };
  return test;
}

Reference moments_reference(std::int64_t groups, double gradient_terms) {
  return [=](const ReferenceInput& in) {
    const GlobalTensor &x = in.src[0], &y = in.diff_dst;
    ReferenceOutput out{Estimate(y.values.size()), {Estimate(x.values.size())}, {}};
    const auto channels = static_cast<std::size_t>(x.shape.c);
    const auto volume = static_cast<std::size_t>(x.shape.volume());
    const double weight = static_cast<double>(groups) / static_cast<double>(volume);
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      const double v = x.values[i];
      const std::size_t group = i % channels * static_cast<std::size_t>(groups) / channels;
      const std::size_t at = 2 * (i / volume * static_cast<std::size_t>(groups) + group);
      out.dst.add(at, v, weight);
      out.dst.add(at + 1, v * v, weight);
      out.diff_src[0].add(i, weight, y.values[at]);
      out.diff_src[0].add(i, 2 * weight * v, y.values[at + 1]);
    }
    out.dst.terms = kDouble;
    out.diff_src[0].terms = gradient_terms;
    return out;
  };
}

TEST_CASE("moments are those of all parts on any cut, with the digits of fp64") {
  for (const DataType type : kTypes)
    for (const std::int64_t groups : {0, 3, 1}) {
      const auto make = [=] { return std::make_unique<Moments>(groups, type); };
      const double rounding = type == DataType::kBfloat16 ? 0x1p16 : 1;
      LayerCase test = norm_case(
          make, moments_reference(groups == 0 ? kShape.c : groups, rounding + kDouble), type);
      expect_on_all_cuts(test, kGrids);
      // Parts that hold some channels, not always of whole groups, and one that holds nothing.
      test.cut.grid = {3, 1, 1};
      test.cut.src_owned = {channel_blocks(kShape, {3, 6, 6})};
      CHECK(expect_layer(test).moved > 0);
      // Where owners of moments hold just their channels, nothing is sent.
      if (groups == 1) continue;
      test.cut.src_owned = {channel_blocks(kShape, {4, 6, 6})};
      const std::int64_t size = groups == 0 ? 1 : 2;
      test.cut.dst_owned = channel_blocks(Moments(groups).dst_shape(test.cut.src_shapes),
                                          {8 / size, 12 / size, 12 / size});
      CHECK(expect_layer(test).moved == 0);
    }
}

TEST_CASE("moments: boxes, and what they refuse") {
  const std::vector<Shape> src{kShape}, two{kShape, kShape};
  const Moments pairs(3);
  CHECK(pairs.dst_shape(src) == Shape{6, 1, 1, 1});
  CHECK(pairs.needs(Box{{2, 0, 0, 0}, {3, 1, 1, 1}}, 0, src) == Box{{2, 0, 0, 0}, {4, 7, 4, 5}});
  const std::vector<Box> block{{{3, 1, 0, 0}, {6, 2, 4, 5}}};
  CHECK(pairs.contributes(block, src) == Box{{2, 0, 0, 0}, {6, 1, 1, 1}});
  CHECK(Moments().contributes(block, src) == Box{{6, 0, 0, 0}, {12, 1, 1, 1}});
  CHECK(pairs.backward_reads_src());
  CHECK_THROWS_WITH_AS(Moments(4).dst_shape(src), doctest::Contains("6 channels in 4 groups"),
                       Error);
  CHECK_THROWS_WITH_AS(pairs.dst_shape(two), doctest::Contains("2 inputs"), Error);
  CHECK_THROWS_AS(Moments(-1), Error);
  const std::vector<DataType> half{DataType::kBfloat16};
  CHECK_THROWS_WITH_AS(pairs.dst_type(half), doctest::Contains("given bf16"), Error);
}

// The layer with moments as any other input; the variance is that which they say.
// With a rectifier of `slope` behind it.
Reference normalize_reference(double slope, bool affine = true) {
  return [=](const ReferenceInput& in) {
    const GlobalTensor &x = in.src[0], &moments = in.src[1], &y = in.diff_dst;
    const auto channels = static_cast<std::size_t>(x.shape.c);
    const auto groups = static_cast<std::size_t>(moments.shape.c / 2);
    ReferenceOutput out{Estimate(y.values.size()),
                        {Estimate(x.values.size()), Estimate(moments.values.size())},
                        {}};
    out.diff_parameters.assign(in.parameters.size(), Estimate(channels));
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      const std::size_t c = i % channels;
      const std::size_t sample = i / static_cast<std::size_t>(x.shape.volume());
      const std::size_t at = 2 * (sample * groups + c * groups / channels);
      const double mean = moments.values[at];
      const double variance = moments.values[at + 1] - mean * mean;
      const double r = 1 / std::sqrt(variance + static_cast<double>(kEpsilon));
      const double normal = (x.values[i] - mean) * r, w = affine ? in.parameters[0][c] : 1;
      const double bias = affine ? in.parameters[1][c] : 0;
      const double derivative = w * normal + bias > 0 ? 1 : slope;
      const double dy = derivative * y.values[i];
      out.dst.add(i, derivative * w, normal);
      out.dst.add(i, derivative * bias);
      out.diff_src[0].add(i, w * r, dy);
      out.diff_src[1].add(at, -w * r, dy);
      out.diff_src[1].add(at, w * r * r * normal * mean, dy);
      out.diff_src[1].add(at + 1, -w * r * r / 2 * normal, dy);
      if (!affine) continue;
      out.diff_parameters[0].add(c, normal, dy);
      out.diff_parameters[1].add(c, dy);
    }
    out.dst.terms = out.diff_src[0].terms = 1 + kDouble;
    out.diff_src[1].terms = kDouble;
    // Rounded once on each of up to 18 parts and in their sum.
    for (Estimate& diff : out.diff_parameters) diff.terms = 2 * 18;
    return out;
  };
}

TEST_CASE("a normalization equals its formula on any cut, rectified or not") {
  for (const DataType type : kTypes)
    for (const auto& [groups, slope, affine] : {std::tuple{6, 1.0F, true},
                                                {6, 0.0F, true},
                                                {3, 0.25F, true},
                                                {1, 1.0F, true},
                                                {1, -0.5F, true},
                                                {6, 0.25F, false},
                                                {3, 1.0F, false}}) {
      const auto make = [type, slope = slope, affine = affine] {
        return std::make_unique<Normalize>(kEpsilon, type, 0, slope, affine);
      };
      LayerCase test =
          norm_case(make, normalize_reference(static_cast<double>(slope), affine), type);
      test.cut.src_shapes.push_back({2 * groups, 1, 1, 1});
      test.cut.src_types.push_back(DataType::kFloat64);
      // Second moments above the square of any mean.
      test.src_value = [](float v) {
        return static_cast<float>(Bfloat16(0.6875F + 0.078125F * v));
      };
      if (type == DataType::kBfloat16) {
        test.reference = in_bfloat16(test.reference, 1, 0);
        const Reference exact = test.reference;
        test.reference = [exact](const ReferenceInput& in) {
          ReferenceOutput out = exact(in);
          out.diff_src[0].terms += 0x1p16;
          return out;
        };
        test.diff_value = [](float v) { return static_cast<float>(Bfloat16(v)); };
      }
      expect_on_all_cuts(test, kGrids);
      test.cut.grid = {3, 1, 1};
      test.cut.dst_owned = channel_blocks(kShape, {3, 6, 6});
      for (const bool spans_all : {true, false}) {
        test.cut.dst_spans_all_channels = spans_all;
        CHECK(expect_layer(test).moved > 0);
      }
    }
}

TEST_CASE("a normalization: boxes, first values, and what it refuses") {
  const std::vector<Shape> src{kShape, {6, 1, 1, 1}}, one{kShape}, wrong{kShape, {8, 1, 1, 1}};
  const Normalize layer;
  CHECK(layer.needs(Box{{1, 2, 0, 0}, {3, 3, 4, 5}}, 1, src) == Box{{0, 0, 0, 0}, {4, 1, 1, 1}});
  CHECK(layer.needs(Box{{4, 2, 0, 0}, {5, 3, 4, 5}}, 1, src) == Box{{4, 0, 0, 0}, {6, 1, 1, 1}});
  CHECK(layer.parameters(src)[0].initial.kind == InitialValues::Kind::kConstant);
  CHECK(layer.parameters(src)[0].initial.constant == 1.0F);
  CHECK_THROWS_WITH_AS(layer.dst_shape(one), doctest::Contains("1 inputs"), Error);
  CHECK_THROWS_WITH_AS(layer.dst_shape(wrong), doctest::Contains("with moments"), Error);
  // One value: of a channel, with each sample by itself; of a channel or of all in groups.
  const std::vector<Shape> voxel{{6, 1, 1, 1}, {12, 1, 1, 1}}, grouped{{6, 1, 1, 1}, {6, 1, 1, 1}},
      pair{{6, 1, 1, 2}, {12, 1, 1, 1}};
  for (const std::int64_t samples : {0, 1})
    CHECK_THROWS_WITH_AS(Normalize(1e-5F, DataType::kFloat32, samples).dst_shape(voxel),
                         doctest::Contains("a single value for each mean"), Error);
  CHECK(Normalize(1e-5F, DataType::kFloat32, 2).dst_shape(voxel) == voxel[0]);
  CHECK(layer.dst_shape(grouped) == grouped[0]);
  CHECK(layer.dst_shape(pair) == pair[0]);
  CHECK_THROWS_AS(Normalize(0.0F), Error);
  CHECK_THROWS_AS(Normalize(1e-5F, DataType::kFloat32, 0, std::nanf("")), Error);
  CHECK(Normalize(1e-5F).kernel_name() == "normalize fp32");
  CHECK(Normalize(1e-5F, DataType::kFloat32, 0, 0).kernel_name() == "normalize and rectify fp32");
  const std::vector<DataType> single{DataType::kFloat32, DataType::kFloat32};
  CHECK_THROWS_WITH_AS(layer.dst_type(single), doctest::Contains("given fp32"), Error);
}

TEST_CASE("the gradients of the reference are the difference quotients of its output") {
  // In fp64 a centred quotient with step h is off by some h^2 and 2^-53 / h.
  constexpr double kStep = 0x1p-17, kBound = 0x1p-26;
  const CounterRng rng(5, RandomUse::kSynth);
  std::uint64_t next = 0;
  const auto draw = [&] { return 2 * static_cast<double>(rng.uniform(next++)) - 1; };
  std::int64_t compared = 0;
  for (const std::int64_t groups : {4, 2, 1}) {
    GlobalTensor x({4, 2, 3, 1}, 2), dy = x;
    std::vector<double> weight(4), bias(4);
    for (auto* values : {&x.values, &dy.values, &weight, &bias})
      for (double& v : *values) v = draw();
    const auto run = [&] { return norm_reference(x, dy, groups, weight, bias, 0.125); };
    const NormReference exact = run();
    const auto expect = [&](double& value, double gradient) {
      const double at = value;
      const auto loss = [&](double v) {
        value = v;
        const NormReference moved = run();
        double sum = 0;
        for (std::size_t i = 0; i < moved.y.values.size(); ++i)
          sum += moved.y.values[i] * dy.values[i];
        return sum;
      };
      const double quotient = (loss(at + kStep) - loss(at - kStep)) / (2 * kStep);
      value = at;
      CHECK(std::abs(quotient - gradient) < kBound);
      ++compared;
    };
    for (std::size_t i = 0; i < x.values.size(); ++i) expect(x.values[i], exact.dx.values[i]);
    for (std::size_t c = 0; c < 4; ++c) {
      expect(weight[c], exact.dweight.values[c]);
      expect(bias[c], exact.dbias.values[c]);
    }
  }
  CHECK(compared == 3 * (48 + 8));
}

}  // namespace
}  // namespace halomesh
