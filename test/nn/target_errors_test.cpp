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
  std::vector<double> sums(2 * kErrorSums);
  // Errors of the first: 1 -1 0.5 -0.5, of the second: 2 2 2 2.
  const std::vector<std::array<float, 4>> samples = {
      {2, 12, 1, 10}, {1, 22, 2, 20}, {3.5F, 32, 3, 30}, {3.5F, 42, 4, 40}};
  for (const auto& s : samples) add_errors(s.data(), s.data() + 2, sums);
  const auto quality = quality_of(sums);
  REQUIRE(quality.size() == 2);
  CHECK(quality[0].mae == 0.75);
  CHECK(quality[0].rmse == doctest::Approx(std::sqrt(0.625)));
  CHECK(quality[0].bias == 0);
  CHECK(quality[0].r2 == doctest::Approx(0.5));  // variance 1.25
  CHECK(quality[1].mae == 2);
  CHECK(quality[1].rmse == 2);
  CHECK(quality[1].bias == 2);
  CHECK(quality[1].r2 == doctest::Approx(1 - 4 / 125.0));
  CHECK(sums[0] == 4);
  CHECK(mean_square_error(sums) == 4.625 / 2);
  CHECK(mean_mae(quality) == 1.375);
  CHECK(mean_rmse(quality) == doctest::Approx(std::sqrt(4.625 / 2)));
}

TEST_CASE("the mean of the targets has R^2 0, and a constant target none") {
  std::vector<double> sums(2 * kErrorSums);
  for (int i = 0; i < 9; ++i) {
    const std::array<float, 2> prediction{4, 0}, target{static_cast<float>(i), 0.3F};
    add_errors(prediction.data(), target.data(), sums);
  }
  const auto quality = quality_of(sums);
  CHECK(std::abs(quality[0].r2) < 1e-15);
  CHECK(std::isnan(quality[1].r2));
  CHECK(quality[1].bias == doctest::Approx(-0.3));
}

TEST_CASE("sums of several places give the quality of all samples") {
  const std::vector<double> none(kErrorSums);
  std::vector<double> all = none, left = none, right = none;
  for (int i = 0; i < 10; ++i) {
    const auto prediction = static_cast<float>(i * i % 7), target = static_cast<float>(i);
    add_errors(&prediction, &target, all);
    add_errors(&prediction, &target, i < 3 ? left : right);
  }
  for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i] + none[i];
  CHECK(quality_of(left)[0].mae == quality_of(all)[0].mae);
  CHECK(quality_of(left)[0].rmse == quality_of(all)[0].rmse);
  CHECK(quality_of(left)[0].r2 == quality_of(all)[0].r2);
  CHECK(quality_of(left)[0].bias == quality_of(all)[0].bias);
  CHECK(quality_of(all)[0].mae > 0);
  CHECK(std::isnan(quality_of(none)[0].mae));
}

}  // namespace
}  // namespace halomesh
