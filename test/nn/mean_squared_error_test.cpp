// SPDX-License-Identifier: Apache-2.0
// The mean squared error against literal numbers, finite differences, and a batch cut over replicas
// and targets cut over parts.
#include "src/nn/losses/mean_squared_error.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "error.hpp"
#include "rng.hpp"

namespace halomesh {
namespace {

const Shape kOutput{4, 1, 1, 1};

Tensor make(const std::vector<float>& values, const Box& box = Box::whole(kOutput)) {
  Tensor tensor(box, static_cast<std::int64_t>(values.size()) / box.volume());
  std::copy(values.begin(), values.end(), tensor.view().data);
  return tensor;
}

std::vector<float> random_values(std::size_t size, std::uint32_t stream) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i)
    values[i] = 2 * CounterRng(5, RandomUse::kSynth, stream).uniform(i) - 1;
  return values;
}

struct Result {
  double loss = 0;
  std::vector<float> diff;
};

Result run(const Tensor& p, const Tensor& t, std::int64_t global_batch) {
  MeanSquaredError loss(kOutput);
  Tensor diff(p.view().span, p.view().batch);
  Result result;
  result.loss = loss.gradient(p.view(), t.view(), {}, global_batch, diff.view());
  result.diff.assign(diff.view().data, diff.view().data + p.view().batch * p.view().span.volume());
  return result;
}

TEST_CASE("the mean squared error of two samples by hand") {
  // Errors: 0.5 -1 0 2 | 0.25 0 0 -0.5, all exact in binary.
  const Tensor p = make({0.5f, 0, 1, 3, 0.25f, 1, 2, 0}), t = make({0, 1, 1, 1, 0, 1, 2, 0.5f});
  const Result result = run(p, t, 2);
  CHECK(result.loss == 5.5625 / 8);
  CHECK(result.diff == std::vector<float>{0.125f, -0.25f, 0, 0.5f, 0.0625f, 0, 0, -0.125f});
  MeanSquaredError loss(kOutput);
  CHECK(loss.target_shape() == kOutput);
  CHECK(loss.target_type() == DataType::kFloat32);
  std::vector<double> sums(2 * loss.sums_per_sample());
  loss.add_sums(p.view(), t.view(), sums);
  std::vector<double> terms(loss.sums_per_sample());
  for (std::size_t i = 0; i < sums.size(); ++i) terms[i % terms.size()] += sums[i];
  const Quality quality = loss.quality(terms);
  CHECK(quality.loss == 5.5625 / 8);
  CHECK(quality.samples == 2);
  REQUIRE(quality.targets.size() == 4);
  CHECK(quality.targets[3].mae == 1.25);
  CHECK(mean_mae(quality.targets) == 4.25 / 8);
}

TEST_CASE("the gradient of the mean squared error is its difference quotient") {
  const std::vector<float> start = random_values(12, 0);
  const Tensor t = make(random_values(12, 1));
  const Result result = run(make(start), t, 3);
  for (std::size_t i = 0; i < start.size(); ++i) {
    // A step that is exact in fp32 for values on a grid of 2^-23; the loss is quadratic, so that
    // the centred quotient is exact up to rounding of sums of 12 doubles; the gradient itself is
    // one rounding of a number below 2 * 2 / 12.
    constexpr float kStep = 0x1p-10f;
    std::vector<float> up = start, down = start;
    up[i] += kStep;
    down[i] -= kStep;
    const double quotient = (run(make(up), t, 3).loss - run(make(down), t, 3).loss) /
                            (static_cast<double>(up[i]) - static_cast<double>(down[i]));
    CHECK(std::abs(quotient - static_cast<double>(result.diff[i])) < 0x1p-25);
  }
}

TEST_CASE("replicas' gradients and losses are those of the whole batch") {
  const std::vector<float> p = random_values(24, 2), t = random_values(24, 3);
  const Result whole = run(make(p), make(t), 6);
  double loss = 0;
  for (std::size_t replica = 0; replica < 3; ++replica) {
    const auto piece = [&](const std::vector<float>& v) {
      const auto first = v.begin() + static_cast<std::ptrdiff_t>(8 * replica);
      return make({first, first + 8});
    };
    const Result result = run(piece(p), piece(t), 6);
    loss += result.loss;
    for (std::size_t i = 0; i < 8; ++i) CHECK(result.diff[i] == whole.diff[8 * replica + i]);
  }
  // Two orders of adding 24 positive doubles.
  CHECK(std::abs(loss - whole.loss) <= 24 * 0x1p-53 * whole.loss);
}

TEST_CASE("targets on two parts give the sums of all") {
  const std::vector<float> p = random_values(8, 4), t = random_values(8, 5);
  MeanSquaredError loss(kOutput);
  std::vector<double> whole(2 * loss.sums_per_sample()), cut = whole;
  loss.add_sums(make(p).view(), make(t).view(), whole);
  for (const std::int64_t lo : {0, 1}) {
    const std::int64_t width = lo == 0 ? 1 : 3;
    const Box box{{lo, 0, 0, 0}, {lo + width, 1, 1, 1}};
    CHECK(loss.target_box(box) == box);
    std::vector<float> some_p, some_t;
    for (std::size_t n = 0; n < 2; ++n)
      for (std::int64_t c = lo; c < lo + width; ++c) {
        some_p.push_back(p[4 * n + static_cast<std::size_t>(c)]);
        some_t.push_back(t[4 * n + static_cast<std::size_t>(c)]);
      }
    loss.add_sums(make(some_p, box).view(), make(some_t, box).view(), cut);
  }
  CHECK(whole == cut);
}

TEST_CASE("a NaN prediction is not hidden") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Result result = run(make({kNan, 0, 0, 0}), make({0, 0, 0, 0}), 1);
  CHECK(std::isnan(result.loss));
  CHECK(std::isnan(result.diff[0]));
  CHECK(result.diff[1] == 0);
}

TEST_CASE("a mean squared error of outputs with space is refused") {
  CHECK_THROWS_WITH_AS(MeanSquaredError({4, 2, 1, 1}),
                       "a mean squared error of outputs of shape 2x1x1x4", Error);
}

TEST_CASE("scaled targets: the loss is that of the outputs, the errors are those of the targets") {
  // Outputs y stand for 10 + 4 y, so that the errors in units of the output are those above.
  const Tensor y = make({0.5F, 0, 1, 3, 0.25F, 1, 2, 0});
  const Tensor plain = make({0, 1, 1, 1, 0, 1, 2, 0.5F}),
               t = make({10, 14, 14, 14, 10, 14, 18, 12});
  MeanSquaredError loss(kOutput);
  loss.scale_targets(std::vector<ChannelScale>(4, {10, 4}));
  Tensor diff(y.view().span, 2);
  const Result wanted = run(y, plain, 2);
  CHECK(loss.gradient(y.view(), t.view(), {}, 2, diff.view()) == wanted.loss);
  CHECK(std::equal(wanted.diff.begin(), wanted.diff.end(), diff.view().data));
  std::vector<double> sums(2 * loss.sums_per_sample()), terms(loss.sums_per_sample());
  loss.add_sums(y.view(), t.view(), sums);
  for (std::size_t i = 0; i < sums.size(); ++i) terms[i % terms.size()] += sums[i];
  const Quality quality = loss.quality(terms);
  CHECK(quality.loss == doctest::Approx(wanted.loss));
  CHECK(quality.targets[0].mae == doctest::Approx(4 * (0.5 + 0.25) / 2));
  CHECK(quality.targets[3].bias == doctest::Approx(4 * (2 - 0.5) / 2));
  CHECK_THROWS_AS(loss.scale_targets({{0, 1}}), Error);
}

}  // namespace
}  // namespace halomesh
