// SPDX-License-Identifier: Apache-2.0
// Parameter draws: ranges, uniformity, scaling, and their dependence only on seed and index.
#include "src/synth/cosmology.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "error.hpp"

using namespace halomesh;

TEST_CASE("targets are the parameters scaled to [-1, 1] in the published order") {
  const auto centre = unit_targets(Cosmology{});
  for (const float t : centre) CHECK(t == doctest::Approx(0).epsilon(1e-6));
  const auto top =
      unit_targets({.omega_m = 0.33, .sigma_8 = 0.80, .n_s = 0.864, .h = 0.735, .omega_b = 0.045});
  CHECK(top[0] == doctest::Approx(1));
  CHECK(top[1] == doctest::Approx(0));
  CHECK(top[2] == doctest::Approx(-1));
  CHECK(top[3] == doctest::Approx(0.5));
  const Cosmology back = cosmology_from_unit({1, 0, -1, 0.5});
  CHECK(back.omega_m == doctest::Approx(0.33));
  CHECK(back.n_s == doctest::Approx(0.864));
  CHECK(back.h == doctest::Approx(0.735));
}

TEST_CASE("draws are uniform over the ranges and independent of each other") {
  constexpr int kCount = 4000;
  double sum[4] = {}, square[4] = {}, cross[4][4] = {};
  for (int u = 0; u < kCount; ++u) {
    const auto t = unit_targets(draw_cosmology(5, u));
    for (std::size_t i = 0; i < 4; ++i) {
      REQUIRE(std::abs(t[i]) <= 1.000001f);
      sum[i] += t[i];
      square[i] += t[i] * t[i];
      for (std::size_t j = 0; j < i; ++j) cross[i][j] += t[i] * t[j];
    }
  }
  // Uniform on [-1, 1]: variance 1/3; x^2 has variance 1/5 - 1/9 = 4/45; x y has 1/9. Five sigma.
  const double n = kCount;
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(std::abs(sum[i] / n) < 5 * std::sqrt(1.0 / 3 / n));
    CHECK(std::abs(square[i] / n - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / n));
    for (std::size_t j = 0; j < i; ++j)
      CHECK(std::abs(cross[i][j] / n) < 5 * std::sqrt(1.0 / 9 / n));
  }
}

TEST_CASE("a draw depends on the seed and the universe's index, and on nothing else") {
  const Cosmology third = draw_cosmology(1, 3);
  (void)draw_cosmology(1, 2);
  CHECK(draw_cosmology(1, 3) == third);
  CHECK_FALSE(draw_cosmology(1, 4) == third);
  CHECK_FALSE(draw_cosmology(2, 3) == third);
  CHECK_THROWS_AS(draw_cosmology(1, -1), Error);
  CHECK_THROWS_AS(draw_cosmology(1, std::int64_t{1} << 32), Error);
}
