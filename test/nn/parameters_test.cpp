// SPDX-License-Identifier: Apache-2.0
// The initial values of parameters: their distributions, and that no cut changes them.
#include "src/nn/parameters.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "error.hpp"
#include "src/nn/counted_memory.hpp"
#include "src/nn/model.hpp"

namespace halomesh {
namespace {

using Kind = InitialValues::Kind;

// A layer that has one parameter of every kind and computes nothing.
class Weights final : public Layer {
 public:
  static constexpr std::int64_t kOut = 64;
  Shape dst_shape(std::span<const Shape> src) const override { return {kOut, src[0].d, 1, 1}; }
  Box needs(const Box&, std::size_t, std::span<const Shape> src) const override {
    return Box::whole(src[0]);
  }
  bool splits_over_channels() const override { return true; }
  std::vector<ParameterGeometry> parameters(std::span<const Shape>) const override {
    const Shape in{16, 3, 3, 3};
    const std::int64_t fan_in = 16 * 27, fan_out = kOut * 27;
    return {{"glorot", kOut, in, false, fan_in, fan_out},
            {"zero", kOut, in, true, 0, 0},
            {"he", kOut, in, false, fan_in, fan_out, {Kind::kHeNormal}},
            {"fan in", kOut, in, false, fan_in, fan_out, {Kind::kFanInUniform}},
            {"constant", kOut, {1, 1, 1, 1}, false, 0, 0, {Kind::kConstant, 1.25F}}};
  }
  void prepare(const LayerContext&, std::vector<ParameterView>) override {}
  void forward(const Pass&, std::span<const AnyConstView>, AnyView, const Box&) override {}
  void backward_data(const Pass&, const ForwardValues&, AnyConstView, std::size_t,
                     AnyView) override {}
};

Model two_layers() {
  Model model({16, 4, 4, 4});
  model.add("first", std::make_unique<Weights>());
  model.add("second", std::make_unique<Weights>());
  return model;
}

std::vector<double> values_of(Parameters& parameters, std::size_t layer, std::size_t number) {
  const ParameterView view = parameters.views(layer).at(number);
  return {view.values.begin(), view.values.end()};
}

double mean_of(const std::vector<double>& values, int power) {
  double sum = 0;
  for (const double v : values) sum += std::pow(v, power);
  return sum / static_cast<double>(values.size());
}

// Of n values with variance s^2: their mean is within 5 s / sqrt(n), and so is the mean of their
// squares, which have the variance `spread` * s^4.
void expect_moments(const std::vector<double>& values, double variance, double spread) {
  const auto n = static_cast<double>(values.size());
  REQUIRE(n > 10000);
  CHECK(std::abs(mean_of(values, 1)) < 5 * std::sqrt(variance / n));
  CHECK(std::abs(mean_of(values, 2) - variance) < 5 * variance * std::sqrt(spread / n));
}

TEST_CASE("parameters begin with the distributions that their layers ask for") {
  const Model model = two_layers();
  const ModelGeometry geometry = model.geometry({1, 1, 1});
  Parameters parameters(geometry, 0);
  parameters.initialize(5);
  constexpr double kFanIn = 16 * 27, kFanOut = 64 * 27;
  constexpr double kUniformSpread = 0.8, kNormalSpread = 2;  // variances of x^2 / s^2
  const auto expect_uniform = [&](std::size_t number, double limit) {
    const std::vector<double> values = values_of(parameters, 0, number);
    expect_moments(values, limit * limit / 3, kUniformSpread);
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    CHECK(*least >= -limit);
    CHECK(*most <= limit);
    CHECK(*most > 0.99 * limit);
  };
  expect_uniform(0, std::sqrt(6 / (kFanIn + kFanOut)));
  expect_uniform(3, std::sqrt(1 / kFanIn));
  const std::vector<double> he = values_of(parameters, 0, 2);
  expect_moments(he, 2 / kFanIn, kNormalSpread);
  // The fourth moment tells a normal distribution (3) from a uniform one (1.8).
  CHECK(std::abs(mean_of(he, 4) / std::pow(2 / kFanIn, 2) - 3) < 0.4);
  CHECK(values_of(parameters, 0, 1) == std::vector<double>(he.size(), 0.0));
  CHECK(values_of(parameters, 0, 4) == std::vector<double>(Weights::kOut, 1.25));
  CHECK(values_of(parameters, 0, 2) != values_of(parameters, 1, 2));
}

TEST_CASE("memory that a process cannot address is refused with its size") {
  const CountedMemory counted;
  CHECK_THROWS_WITH_AS(CountedMemory::reserve(4096000000000000),
                       "a layer needs 4.1e+06 GB of memory, which this process cannot address",
                       Error);
  CHECK(counted.bytes() == 0);
}

TEST_CASE("initial values do not depend on how layers are cut") {
  Model model = two_layers();
  const ModelGeometry whole = model.geometry({1, 1, 1});
  Parameters serial(whole, 0);
  serial.initialize(9);
  std::int64_t compared = 0, slices = 0;
  CutSetting by_channels;
  by_channels.kind = CutSetting::Kind::kChannels;
  model.set_cuts(by_channels);
  const ModelGeometry cut = model.geometry({2, 1, 1});
  for (std::int64_t part = 0; part < 2; ++part) {
    Parameters parameters(cut, part);
    parameters.initialize(9);
    for (std::size_t p = 0; p < cut.parameters().size(); ++p) {
      const ParameterPlacement& placement = cut.parameters()[p];
      const ParameterRange* const range = parameters.find(p);
      REQUIRE(range != nullptr);
      if (range->volume < placement.geometry.volume()) ++slices;
      for_each_run(
          placement.geometry, placement.slices[static_cast<std::size_t>(part)],
          [&](std::int64_t local, std::int64_t global, std::int64_t length) {
            for (std::int64_t i = 0; i < length; ++i, ++compared)
              CHECK(parameters.values()[static_cast<std::size_t>(range->offset + local + i)] ==
                    serial.values()[static_cast<std::size_t>(serial.find(p)->offset + global + i)]);
          });
    }
  }
  CHECK(slices > 0);
  CHECK(compared > 100000);
}

}  // namespace
}  // namespace halomesh
