// SPDX-License-Identifier: Apache-2.0
// Functions of one element on any cut against their formulas in double precision.
#include "src/nn/layers/elementwise.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numbers>
#include <vector>

#include "error.hpp"
#include "src/nn/layers/prelu.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/layer_check.hpp"

namespace halomesh {
namespace {

constexpr PartGrid kGrids[] = {{1, 1, 1}, {3, 1, 1}, {1, 2, 1}, {1, 1, 4}, {2, 2, 2}, {7, 1, 2}};
constexpr Shape kShape{3, 5, 4, 6};
using Kind = ElementFunction::Kind;
using Formula = std::function<double(double)>;

// A function and its derivative. Inputs are `scale` times values in [-1, 1), plus `shift`. Values
// are off by at most `terms` roundings of themselves times `condition`, which stands for the
// rounding of an argument that an exponential enlarges.
struct FunctionCase {
  ElementFunction function;
  Formula value, slope;
  double terms = 8;
  float scale = 5, shift = 0;
  Formula condition = [](double) { return 1.0; };
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double normal(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double inner(double x) { return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }
double softplus(double x) { return std::log1p(std::exp(x)); }

FunctionCase leaky(float slope, double exact) {
  const auto of = [exact](double x, double v) { return x > 0 ? v : exact * v; };
  return {ElementFunction::leaky_relu(slope), [=](double x) { return of(x, x); },
          [=](double x) { return of(x, 1); }};
}

FunctionCase elu(const ElementFunction& f, double a, double b, double c) {
  return {f, [=](double x) { return b * (x > 0 ? x : a * std::expm1(x / c)); },
          [=](double x) { return b * (x > 0 ? 1 : a * std::exp(x / c) / c); }};
}

FunctionCase tanh_times(double a) {
  return {ElementFunction::scaled_tanh(static_cast<float>(a)),
          [a](double x) { return a * std::tanh(x); },
          [a](double x) { return a * (1 - std::tanh(x) * std::tanh(x)); }};
}

// Functions of exponentials.
std::vector<FunctionCase> smooth_cases() {
  const auto square = [](double x) { return 1 + x * x; };
  std::vector<FunctionCase> all{
      tanh_times(1.25),
      tanh_times(-0.5),
      {{Kind::kSigmoid}, sigmoid, [](double x) { return sigmoid(x) * sigmoid(-x); }},
      {ElementFunction::silu(), [](double x) { return x * sigmoid(x); },
       [](double x) { return sigmoid(x) * (1 + x * sigmoid(-x)); }},
      {{Kind::kSilu, 1.5F},
       [](double x) { return x * sigmoid(1.5 * x); },
       [](double x) { return sigmoid(1.5 * x) * (1 + 1.5 * x * sigmoid(-1.5 * x)); },
       8,
       5,
       0,
       square},
      {{Kind::kGelu},
       [](double x) { return x * normal(x); },
       [](double x) { return normal(x) + x * density(x); },
       16,
       5,
       0,
       square},
      {{Kind::kGeluTanh},
       [](double x) { return x * (1 + std::tanh(inner(x))) / 2; },
       [](double x) {
         const double t = std::tanh(inner(x));
         return (1 + t) / 2 +
                x * (1 - t * t) / 2 * std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
       },
       16,
       5,
       0,
       [](double x) { return 1 + std::abs(4 * inner(x)); }},
      {{Kind::kSoftplus}, softplus, sigmoid},
      {{Kind::kMish},
       [](double x) { return x * std::tanh(softplus(x)); },
       [](double x) {
         const double t = std::tanh(softplus(x));
         return t + x * sigmoid(x) * (1 - t * t);
       },
       16},
      {{Kind::kExp}, [](double x) { return std::exp(x); }, [](double x) { return std::exp(x); }},
      {{Kind::kErf},
       [](double x) { return std::erf(x); },
       [](double x) { return 2 / std::sqrt(std::numbers::pi) * std::exp(-x * x); }}};
  all.push_back(elu(ElementFunction::elu(0.75F), 0.75, 1, 1));
  all.push_back(elu(ElementFunction::selu(), 1.6732632423543772, 1.0507009873554805, 1));
  all.push_back(elu(ElementFunction::celu(1.25F), 1.25, 1, 1.25));
  return all;
}

// Pieces of straight lines, and powers.
std::vector<FunctionCase> other_cases() {
  const auto clip = [](double x) { return std::min(std::max(x, -0.5), 6.0); };
  const auto step = [](double t) { return t > 0 && t < 1 ? 1.0 : 0.0; };
  const auto unit = [](double t) { return std::min(std::max(t, 0.0), 1.0); };
  const auto root = [](double x) { return std::sqrt(x); };
  const auto line = [](double x) { return 3 - 0.25 * x; };
  const auto large = [](double x) { return 10 / std::abs(3 - 0.25 * x); };
  return {
      leaky(0.3F, 0.3),
      leaky(0, 0),
      leaky(1, 1),
      {ElementFunction::clip(-0.5F, 6), clip,
       [](double x) { return x > -0.5 && x < 6 ? 1.0 : 0.0; }, 1, 8},
      {{Kind::kHardSigmoid, 0.25F, 0.5F},
       [=](double x) { return unit(x / 4 + 0.5); },
       [=](double x) { return step(x / 4 + 0.5) / 4; },
       8,
       5,
       0,
       [](double x) { return x > -2 && x < 2 ? 1 / (x / 4 + 0.5) : 1; }},
      {{Kind::kHardSwish},
       [=](double x) { return x * unit(x / 6 + 0.5); },
       [](double x) { return x < -3  ? 0
                             : x < 3 ? x / 3 + 0.5
                                     : 1; }},
      {{Kind::kAbs},
       [](double x) { return std::abs(x); },
       [](double x) { return x > 0   ? 1
                             : x < 0 ? -1
                                     : 0; }},
      {ElementFunction::linear(-0.25F, 3), line, [](double) { return -0.25; }, 8, 5, 0, large},
      {{Kind::kLog},
       [](double x) { return std::log(x); },
       [](double x) { return 1 / x; },
       8,
       2,
       2.25F},
      {{Kind::kSqrt}, root, [=](double x) { return 0.5 / root(x); }, 8, 2, 2.25F},
      {ElementFunction::power(2), [](double x) { return x * x; }, [](double x) { return 2 * x; }},
      {ElementFunction::power(-1), [](double x) { return 1 / x; },
       [](double x) { return -1 / (x * x); }, 8, 2, 2.25F},
      {ElementFunction::power(1.5F), [=](double x) { return x * root(x); },
       [=](double x) { return 1.5 * root(x); }, 8, 2, 2.25F}};
}

std::vector<FunctionCase> all_cases() {
  std::vector<FunctionCase> all = smooth_cases();
  for (FunctionCase& each : other_cases()) all.push_back(std::move(each));
  return all;
}

// Slopes are differences of numbers of the order of 1: their bound is on 1 + |slope|.
Reference reference(const FunctionCase& f) {
  return [f](const ReferenceInput& in) {
    const std::size_t size = in.src[0].values.size();
    ReferenceOutput out{Estimate(size), {Estimate(size)}, {}};
    for (std::size_t i = 0; i < size; ++i) {
      const double x = in.src[0].values[i], dy = in.diff_dst.values[i];
      out.dst.values[i] = f.value(x);
      out.dst.magnitudes[i] = std::abs(f.value(x)) * f.condition(x);
      out.diff_src[0].values[i] = f.slope(x) * dy;
      out.diff_src[0].magnitudes[i] = (1 + std::abs(f.slope(x))) * std::abs(dy);
    }
    out.dst.terms = f.terms;
    out.diff_src[0].terms = 32;
    return out;
  };
}

LayerCase make_case(std::function<std::unique_ptr<Layer>()> make, const Reference& expected,
                    const FunctionCase& f, DataType type) {
  LayerCase test;
  test.name = make()->kernel_name();
  test.make_layer = std::move(make);
  test.cut.src_shapes = {kShape};
  test.cut.src_types = {type};
  test.cut.batch = 2;
  test.reference = expected;
  test.repeat = true;
  const auto rounded = [type](float v) {
    return type == DataType::kBfloat16 ? static_cast<float>(Bfloat16(v)) : v;
  };
  test.src_value = [=](float v) { return rounded(f.scale * v + f.shift); };
  test.diff_value = rounded;
  // The output is rounded, and with it what a derivative is read from.
  if (type == DataType::kBfloat16) test.reference = in_bfloat16(expected, 1, 3);
  return test;
}

void expect_on_cuts_in_space_and_channels(LayerCase test) {
  expect_on_all_cuts(test, kGrids);
  test.cut.grid = {2, 1, 1};
  test.cut.src_owned = {channel_blocks(kShape, {2, 3})};
  test.cut.dst_owned = channel_blocks(kShape, {1, 3});
  CHECK(expect_layer(test).moved > 0);
}

TEST_CASE("functions of one element equal their formulas on any cut") {
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16})
    for (const FunctionCase& f : all_cases()) {
      const auto make = [=] { return std::make_unique<Elementwise>(f.function, type); };
      LayerCase test = make_case(make, reference(f), f, type);
      expect_on_cuts_in_space_and_channels(test);
      if (f.function.kind != Kind::kLeakyRelu) continue;
      test.src_value = [](float v) { return v < 0.5F ? 0.0F : v; };  // zero counts as not positive
      if (type == DataType::kFloat32) expect_on_cuts_in_space_and_channels(test);
    }
}

TEST_CASE("the derivatives of the formulas are their difference quotients") {
  // In double the centred quotient with step h = 2^-19 is off by h^2 / 6 * |f'''| < 2^-40 * 2000,
  // and by some 2^19 * 2^-53 of a value for the rounding of the values.
  std::int64_t compared = 0;
  for (const FunctionCase& f : all_cases())
    for (double v = -0.99; v < 1; v += 0.0637, ++compared) {
      const double x = static_cast<double>(f.scale) * v + static_cast<double>(f.shift);
      const double h = 0x1p-19, quotient = (f.value(x + h) - f.value(x - h)) / (2 * h);
      CHECK(std::abs(quotient - f.slope(x)) < 1e-8);
    }
  CHECK(compared > 27 * 31);
}

// What the layer makes of values in the channels of one pixel, by blocks of `count` channels.
std::vector<float> outputs(const ElementFunction& f, const std::vector<float>& values,
                           std::int64_t count) {
  const Shape shape{std::ssize(values), 1, 1, 1};
  const Box whole = Box::whole(shape);
  Elementwise layer(f);
  LayerContext context;
  context.src_shapes = {shape};
  context.dst_shape = shape;
  context.boxes = {{whole}, whole, whole};
  layer.prepare(context, {});
  Tensor src(whole, 1), dst(whole, 1);
  std::copy(values.begin(), values.end(), src.view().data);
  const std::vector<AnyConstView> views{src.view()};
  for (std::int64_t c = 0; c < shape.c; c += count)
    layer.forward({}, views, dst.view(), {{c, 0, 0, 0}, {std::min(c + count, shape.c), 1, 1, 1}});
  return {dst.view().data, dst.view().data + shape.c};
}

TEST_CASE("functions of one element give the same bits in vectors and one by one") {
  std::vector<float> values;
  for (int i = 0; i < 1003; ++i) values.push_back(0.0137F * static_cast<float>(i) - 5);
  for (const FunctionCase& f : all_cases()) {
    std::vector<float> inside = values;
    if (f.shift > 0)
      for (float& v : inside) v = std::abs(v) + 0.125F;
    const std::vector<float> whole = outputs(f.function, inside, 1003);
    for (const std::int64_t count : {1, 7, 64}) CHECK(outputs(f.function, inside, count) == whole);
  }
}

TEST_CASE("functions of one element saturate, and let a NaN pass") {
  for (const FunctionCase& f : all_cases()) {
    const auto y = outputs(f.function, {std::nanf(""), -200, 200}, 3);
    CAPTURE(static_cast<int>(f.function.kind));
    CHECK(std::isnan(y[0]));
    if (f.shift > 0 || f.function.kind == Kind::kExp) continue;
    CHECK(static_cast<double>(y[1]) == doctest::Approx(f.value(-200)));
    CHECK(static_cast<double>(y[2]) == doctest::Approx(f.value(200)));
  }
  const auto exps = outputs({Kind::kExp}, {-200, 200, 0, 88.5F, -87}, 5);
  CHECK(exps[0] == 0);
  CHECK(exps[1] == std::numeric_limits<float>::infinity());
  CHECK(exps[2] == 1);
  CHECK(static_cast<double>(exps[3]) == doctest::Approx(std::exp(88.5)));
  CHECK(static_cast<double>(exps[4]) == doctest::Approx(std::exp(-87.0)));
}

TEST_CASE("functions of one element refuse constants that do not fit") {
  const float nan = std::nanf("");
  for (const ElementFunction& f :
       {ElementFunction::leaky_relu(-0.1F), ElementFunction::leaky_relu(nan),
        ElementFunction::scaled_tanh(0), ElementFunction::elu(-1), ElementFunction::clip(1, 0),
        ElementFunction::clip(nan, 0), ElementFunction::power(nan)})
    CHECK_THROWS_AS(Elementwise{f}, Error);
  const Elementwise layer(ElementFunction::leaky_relu(0), DataType::kBfloat16);
  const std::vector<DataType> single{DataType::kFloat32};
  CHECK_THROWS_WITH_AS(layer.dst_type(single), doctest::Contains("leaky relu of bf16 given fp32"),
                       Error);
  CHECK(layer.kernel_name() == "leaky relu bf16");
}

Reference prelu_reference(bool per_channel) {
  return [per_channel](const ReferenceInput& in) {
    const std::size_t size = in.src[0].values.size();
    const auto channels = static_cast<std::size_t>(in.src[0].shape.c);
    ReferenceOutput out{Estimate(size), {Estimate(size)}, {Estimate(per_channel ? channels : 1)}};
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t c = per_channel ? i % channels : 0;
      const double x = in.src[0].values[i], dy = in.diff_dst.values[i];
      const double slope = x > 0 ? 1 : in.parameters[0][c];
      out.dst.add(i, slope, x);
      out.diff_src[0].add(i, slope, dy);
      if (x <= 0) out.diff_parameters[0].add(c, x, dy);
    }
    out.diff_parameters[0].terms = 2 * 18;  // sums in double, rounded on each part and in their sum
    return out;
  };
}

TEST_CASE("PReLU and the gradient of its slopes equal naive loops on any cut") {
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16})
    for (const bool per_channel : {true, false}) {
      const auto make = [=] { return std::make_unique<PRelu>(per_channel, type); };
      expect_on_cuts_in_space_and_channels(
          make_case(make, prelu_reference(per_channel), leaky(1, 1), type));
    }
  const std::vector<Shape> src{kShape};
  CHECK(PRelu(true).parameters(src)[0].out == 3);
  CHECK(PRelu(false).parameters(src)[0].out == 1);
  CHECK(PRelu(false).parameters(src)[0].initial.constant == 0.25F);
}

TEST_CASE("elementwise: the range of outputs is that of the function") {
  const auto range = [](const ElementFunction& function) {
    const OutputRange found = output_range(Elementwise(function));
    return std::vector<double>{found.low, found.high};
  };
  const double none = std::numeric_limits<double>::infinity();
  CHECK(range(ElementFunction::scaled_tanh(-1.5F)) == std::vector<double>{-1.5, 1.5});
  CHECK(range({ElementFunction::Kind::kSigmoid}) == std::vector<double>{0, 1});
  CHECK(range(ElementFunction::clip(-2, 3)) == std::vector<double>{-2, 3});
  CHECK(range(ElementFunction::leaky_relu(0)) == std::vector<double>{0, none});
  CHECK(range(ElementFunction::leaky_relu(0.3F)) == std::vector<double>{-none, none});
}

}  // namespace
}  // namespace halomesh
