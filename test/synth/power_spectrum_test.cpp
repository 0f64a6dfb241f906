// SPDX-License-Identifier: Apache-2.0
// The spectrum against the fit evaluated elsewhere, its limits, and its normalization; growth.
#include "src/synth/power_spectrum.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "error.hpp"
#include "src/synth/growth.hpp"

using namespace halomesh;

TEST_CASE("the transfer function equals the paper's fit, evaluated independently of this code") {
  struct Row {
    double k, at_centre, other;
  };
  // Equations 26 and 28-31 in the paper's own units (k in 1/Mpc), by a script in another language;
  // columns: (omega_m, omega_b, h) = (0.30, 0.045, 0.70) and (0.27, 0.045, 0.77).
  const std::vector<Row> rows = {{1e-3, 0.992048096205, 0.991906451265},
                                 {1e-2, 0.785801658453, 0.783025523995},
                                 {0.1, 0.134886075774, 0.128613999921},
                                 {1, 0.00473287685242, 0.00443053907752},
                                 {10, 9.04540631214e-05, 8.41634703934e-05}};
  const TransferFunction centre{Cosmology{}};
  const TransferFunction other{Cosmology{.omega_m = 0.27, .h = 0.77}};
  int compared = 0;
  for (const Row& row : rows) {
    // Twelve digits are given.
    CHECK(centre(row.k) == doctest::Approx(row.at_centre).epsilon(1e-11));
    CHECK(other(row.k) == doctest::Approx(row.other).epsilon(1e-11));
    compared += 2;
  }
  CHECK(compared == 10);
}

TEST_CASE("the transfer function tends to 1 on large scales and falls with k") {
  const TransferFunction transfer{Cosmology{}};
  // q = k theta^2 / 0.21; 1 - T = (14.2 + 731) q^2 / ln(2e) to first order: 1e-8 at k = 5e-7.
  CHECK(transfer(1e-12) == doctest::Approx(1).epsilon(1e-15));
  CHECK(std::abs(transfer(5e-7) - 1) < 1e-8);
  double last = 1;
  int compared = 0;
  for (double k = 1e-4; k < 100; k *= 1.1, ++compared) {
    CHECK(transfer(k) < last);
    last = transfer(k);
  }
  CHECK(compared > 100);
}

namespace {

// sigma(R) by the midpoint rule, linear in x = k R: another rule, another variable.
double sigma_by_midpoints(const PowerSpectrum& spectrum, double radius) {
  const double step = 1e-3;
  double sum = 0;
  for (std::int64_t i = 0; i < 200'000; ++i) {
    const double x = (static_cast<double>(i) + 0.5) * step;
    const double window = x < 1e-2 ? 1 - x * x / 10 : 3 / (x * x) * (std::sin(x) / x - std::cos(x));
    sum += x * x * spectrum(x / radius) * window * window;
  }
  return std::sqrt(sum * step / std::pow(radius, 3) / 2) / std::numbers::pi;
}

}  // namespace

TEST_CASE("sigma_8 of the spectrum, by an independent quadrature, is the requested one") {
  const std::vector<Cosmology> cosmologies = {
      {},
      {.sigma_8 = 0.88},
      {.omega_m = 0.27, .sigma_8 = 0.72, .n_s = 0.864, .h = 0.63},
      {.omega_m = 0.33, .sigma_8 = 0.88, .n_s = 1.056, .h = 0.77}};
  for (const Cosmology& c : cosmologies) {
    // Midpoints: step^2/24 x curvature of the integrand (of order 1 in x) is about 1e-7; the tail
    // beyond x = 200 is below 1e-8.
    CHECK(sigma_by_midpoints(PowerSpectrum(c), 8) == doctest::Approx(c.sigma_8).epsilon(1e-6));
    CHECK(PowerSpectrum(c).sigma(8) == doctest::Approx(c.sigma_8).epsilon(1e-12));
    // At a radius that the normalization does not force.
    CHECK(PowerSpectrum(c).sigma(20) ==
          doctest::Approx(sigma_by_midpoints(PowerSpectrum(c), 20)).epsilon(1e-6));
  }
}

TEST_CASE("large scales keep the primordial slope") {
  const PowerSpectrum spectrum{Cosmology{.n_s = 0.9}};
  // T = 1 to 1e-8 (above), so the ratio over a factor 2 in k is 2^0.9.
  CHECK(spectrum(4e-7) / spectrum(2e-7) == doctest::Approx(std::pow(2.0, 0.9)).epsilon(1e-7));
  CHECK(spectrum(0) == 0);
}

TEST_CASE("impossible cosmologies are refused") {
  CHECK_THROWS_AS(PowerSpectrum(Cosmology{.omega_m = 0.04}), Error);  // less than its baryons
  CHECK_THROWS_AS(PowerSpectrum(Cosmology{.omega_m = 1.2}), Error);
  CHECK_THROWS_AS(PowerSpectrum(Cosmology{.sigma_8 = -0.8}), Error);
  CHECK_THROWS_AS(PowerSpectrum(Cosmology{.h = 0}), Error);
  CHECK_THROWS_AS(PowerSpectrum(Cosmology{.n_s = std::numeric_limits<double>::quiet_NaN()}), Error);
  CHECK_THROWS_AS(growing_mode(0, 0), Error);
  CHECK_THROWS_AS(growing_mode(0.3, -1), Error);
}

namespace {

// The same integral in closed form: D = a 2F1(1/3, 1; 11/6; -x), x = omega_l a^3 / omega_m, by the
// series of (1+x)^-1 2F1(3/2, 1; 11/6; x/(1+x)) (Pfaff's transformation).
double growing_mode_by_series(double omega_m, double z) {
  const double a = 1 / (1 + z), x = (1 - omega_m) / omega_m * a * a * a, u = x / (1 + x);
  double term = 1, sum = 1;
  for (int n = 0; n < 2000; ++n) {
    term *= (1.5 + n) / (11.0 / 6 + n) * u;
    sum += term;
  }
  return a / (1 + x) * sum;
}

}  // namespace

TEST_CASE("growth: closed form, matter only, published fit, monotony") {
  int compared = 0;
  for (const double omega_m : {0.27, 0.3, 0.33, 1.0})
    for (const double z : {0.0, 0.5, 1.5, 3.0, 50.0}) {
      CHECK(growing_mode(omega_m, z) ==
            doctest::Approx(growing_mode_by_series(omega_m, z)).epsilon(1e-10));
      ++compared;
    }
  CHECK(compared == 20);
  CHECK(growing_mode(1, 1.5) == doctest::Approx(0.4).epsilon(1e-10));  // D = a without Lambda
  // Carroll, Press & Turner 1992, eq. 29, accurate to a few per cent according to the authors.
  const double m = 0.3, l = 0.7;
  const double fit = 2.5 * m / (std::pow(m, 4.0 / 7) - l + (1 + m / 2) * (1 + l / 70));
  CHECK(growing_mode(m, 0) == doctest::Approx(fit).epsilon(0.02));
  CHECK(growth_factor(0.3, 0) == doctest::Approx(1).epsilon(1e-15));
  CHECK(growth_factor(0.3, 0.5) > growth_factor(0.3, 1.5));
}
