// SPDX-License-Identifier: Apache-2.0
// Quality by target: by hand, for known predictors, and from sums in two places.
#include "src/nn/target_errors.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

namespace halomesh {
namespace {

TEST_CASE("the quality of two targets by hand") {
  TargetErrors errors(2);
  // Errors of the first: 1 -1 0.5 -0.5, of the second: 2 2 2 2.
  const std::vector<std::array<float, 4>> samples = {
      {2, 12, 1, 10}, {1, 22, 2, 20}, {3.5F, 32, 3, 30}, {3.5F, 42, 4, 40}};
  for (const auto& s : samples) errors.add(s.data(), s.data() + 2);
  const auto quality = errors.quality();
  REQUIRE(quality.size() == 2);
  CHECK(quality[0].mae == 0.75);
  CHECK(quality[0].rmse == doctest::Approx(std::sqrt(0.625)));
  CHECK(quality[0].bias == 0);
  CHECK(quality[0].r2 == doctest::Approx(0.5));  // variance 1.25
  CHECK(quality[1].mae == 2);
  CHECK(quality[1].rmse == 2);
  CHECK(quality[1].bias == 2);
  CHECK(quality[1].r2 == doctest::Approx(1 - 4 / 125.0));
  CHECK(errors.samples() == 4);
  CHECK(errors.mean_square_error() == 4.625 / 2);
  CHECK(mean_mae(quality) == 1.375);
  CHECK(mean_rmse(quality) == doctest::Approx(std::sqrt(4.625 / 2)));
}

TEST_CASE("the mean of the targets has R^2 0, and a constant target none") {
  TargetErrors errors(2);
  for (int i = 0; i < 9; ++i) {
    const std::array<float, 2> prediction{4, 0}, target{static_cast<float>(i), 0.3F};
    errors.add(prediction.data(), target.data());
  }
  const auto quality = errors.quality();
  CHECK(std::abs(quality[0].r2) < 1e-15);
  CHECK(std::isnan(quality[1].r2));
  CHECK(quality[1].bias == doctest::Approx(-0.3));
}

TEST_CASE("sums of several places give the quality of all samples") {
  TargetErrors all(1), left(1), right(1), none(1);
  for (int i = 0; i < 10; ++i) {
    const auto prediction = static_cast<float>(i * i % 7), target = static_cast<float>(i);
    all.add(&prediction, &target);
    (i < 3 ? left : right).add(&prediction, &target);
  }
  for (std::size_t i = 0; i < left.sums().size(); ++i)
    left.sums()[i] += right.sums()[i] + none.sums()[i];
  CHECK(left.quality()[0].mae == all.quality()[0].mae);
  CHECK(left.quality()[0].rmse == all.quality()[0].rmse);
  CHECK(left.quality()[0].r2 == all.quality()[0].r2);
  CHECK(left.quality()[0].bias == all.quality()[0].bias);
  CHECK(all.quality()[0].mae > 0);
  CHECK(std::isnan(none.quality()[0].mae));
}

}  // namespace
}  // namespace halomesh
