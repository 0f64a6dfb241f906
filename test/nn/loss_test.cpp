// SPDX-License-Identifier: Apache-2.0
// Losses against literal numbers, finite differences, and a batch cut over replicas.
#include "src/nn/loss.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "error.hpp"
#include "rng.hpp"
#include "src/nn/pack.hpp"

namespace halomesh {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const Box kTargets = Box::whole({4, 1, 1, 1});

Tensor make(const std::vector<float>& values) {
  Tensor tensor(kTargets, static_cast<std::int64_t>(values.size()) / 4);
  std::copy(values.begin(), values.end(), tensor.view().data);
  return tensor;
}

std::vector<float> random_values(std::size_t size, std::uint32_t stream) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i)
    values[i] = 2 * CounterRng(5, RandomUse::kSynth, stream).uniform(i) - 1;
  return values;
}

TEST_CASE("losses of two samples by hand") {
  // Errors: 0.5 -1 0 2 | 0.25 0 0 -0.5, all exact in binary.
  const Tensor p = make({0.5f, 0, 1, 3, 0.25f, 1, 2, 0}), t = make({0, 1, 1, 1, 0, 1, 2, 0.5f});
  Tensor diff(kTargets, 2);
  const ErrorSums sums =
      loss_gradient(LossKind::kMeanSquaredError, p.view(), t.view(), 2, 2, diff.view());
  CHECK(sums.squared == 5.5625);
  CHECK(sums.absolute == 4.25);
  CHECK(sums.samples == 2);
  const std::vector<float> squared{0.125f, -0.25f, 0, 0.5f, 0.0625f, 0, 0, -0.125f};  // e / 4
  CHECK(std::vector<float>(diff.view().data, diff.view().data + 8) == squared);
  loss_gradient(LossKind::kMeanAbsoluteError, p.view(), t.view(), 2, 2, diff.view());
  const std::vector<float> absolute{0.125f, -0.125f, 0, 0.125f, 0.125f, 0, 0, -0.125f};
  CHECK(std::vector<float>(diff.view().data, diff.view().data + 8) == absolute);
}

TEST_CASE("samples beyond the count contribute nothing") {
  const Tensor p = make({1, 1, 1, 1, kNan, kNan, kNan, kNan}), t = make({0, 0, 0, 0, 9, 9, 9, 9});
  for (LossKind kind : {LossKind::kMeanSquaredError, LossKind::kMeanAbsoluteError}) {
    Tensor diff(kTargets, 2);
    fill(diff.view(), kTargets, kNan);
    const ErrorSums sums = loss_gradient(kind, p.view(), t.view(), 1, 2, diff.view());
    CHECK(sums.squared == 4);
    CHECK(sums.absolute == 4);
    CHECK(sums.samples == 1);
    for (int i = 0; i < 8; ++i)
      CHECK(diff.view().data[i] ==
            (i >= 4 ? 0.0f : (kind == LossKind::kMeanSquaredError ? 0.25f : 0.125f)));
    const ErrorSums none = loss_gradient(kind, p.view(), t.view(), 0, 2, diff.view());
    CHECK(none.squared == 0);
    CHECK(none.samples == 0);
    for (int i = 0; i < 8; ++i) CHECK(diff.view().data[i] == 0);
  }
}

double loss(LossKind kind, const ErrorSums& sums, double values) {
  return (kind == LossKind::kMeanSquaredError ? sums.squared : sums.absolute) / values;
}

TEST_CASE("gradients are the difference quotients of the loss") {
  const std::vector<float> start = random_values(12, 0);
  const Tensor t = make(random_values(12, 1));
  for (LossKind kind : {LossKind::kMeanSquaredError, LossKind::kMeanAbsoluteError})
    for (std::size_t i = 0; i < start.size(); ++i) {
      Tensor diff(kTargets, 3);
      loss_gradient(kind, make(start).view(), t.view(), 3, 3, diff.view());
      // A step that is exact in fp32 for values on a grid of 2^-23; both losses are at most
      // quadratic, so that the centred quotient is exact up to rounding of sums of 12 doubles; the
      // gradient itself is one rounding of a number below 2 * 2 / 12.
      constexpr float kStep = 0x1p-10f;
      std::vector<float> up = start, down = start;
      up[i] += kStep;
      down[i] -= kStep;
      const double quotient = (loss(kind, error_sums(make(up).view(), t.view(), 3), 12) -
                               loss(kind, error_sums(make(down).view(), t.view(), 3), 12)) /
                              (static_cast<double>(up[i]) - static_cast<double>(down[i]));
      CHECK(std::abs(quotient - static_cast<double>(diff.view().data[i])) < 0x1p-25);
    }
}

TEST_CASE("replicas' gradients and sums are those of the whole batch") {
  const std::vector<float> p = random_values(24, 2), t = random_values(24, 3);
  Tensor whole(kTargets, 6);
  const ErrorSums all = loss_gradient(LossKind::kMeanSquaredError, make(p).view(), make(t).view(),
                                      6, 6, whole.view());
  ErrorSums sums;
  for (std::size_t replica = 0; replica < 3; ++replica) {
    const auto piece = [&](const std::vector<float>& v) {
      const auto first = v.begin() + static_cast<std::ptrdiff_t>(8 * replica);
      return make({first, first + 8});
    };
    Tensor diff(kTargets, 2);
    sums += loss_gradient(LossKind::kMeanSquaredError, piece(p).view(), piece(t).view(), 2, 6,
                          diff.view());
    for (std::size_t i = 0; i < 8; ++i)
      CHECK(diff.view().data[i] == whole.view().data[8 * replica + i]);
  }
  CHECK(sums.samples == 6);
  // Two orders of adding 24 positive doubles.
  CHECK(std::abs(sums.squared - all.squared) <= 24 * 0x1p-53 * all.squared);
  CHECK(std::abs(sums.absolute - all.absolute) <= 24 * 0x1p-53 * all.absolute);
}

TEST_CASE("a NaN prediction is not hidden") {
  const Tensor p = make({kNan, 0, 0, 0}), t = make({0, 0, 0, 0});
  for (LossKind kind : {LossKind::kMeanSquaredError, LossKind::kMeanAbsoluteError}) {
    Tensor diff(kTargets, 1);
    const ErrorSums sums = loss_gradient(kind, p.view(), t.view(), 1, 1, diff.view());
    CHECK(std::isnan(sums.squared));
    CHECK(std::isnan(sums.absolute));
    CHECK(std::isnan(diff.view().data[0]));
    CHECK(diff.view().data[1] == 0);
  }
}

TEST_CASE("losses refuse views that do not match") {
  const Tensor p(kTargets, 2), other(Box::whole({3, 1, 1, 1}), 2), fewer(kTargets, 1);
  CHECK_THROWS_WITH_AS(error_sums(p.view(), other.view(), 2),
                       "loss of 2 predictions of shape 1x1x1x4 against 2 targets of shape 1x1x1x3",
                       Error);
  CHECK_THROWS_AS(error_sums(p.view(), fewer.view(), 1), Error);
  CHECK_THROWS_AS(error_sums(p.view(), p.view(), 3), Error);
  CHECK_THROWS_AS(
      loss_gradient(LossKind::kMeanSquaredError, p.view(), p.view(), 2, 2, fewer.view()), Error);
  CHECK_THROWS_AS(loss_gradient(LossKind::kMeanSquaredError, p.view(), p.view(), 2, 0, p.view()),
                  Error);
}

}  // namespace
}  // namespace halomesh
