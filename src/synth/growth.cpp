// SPDX-License-Identifier: Apache-2.0
// Quadrature of the growing mode's integral.
#include "src/synth/growth.hpp"

#include <cmath>

#include "error.hpp"
#include "src/synth/simpson.hpp"

namespace halomesh {

double growing_mode(double omega_m, double z) {
  require(omega_m > 0 && omega_m <= 1, text("omega_m is {:g}, not in (0, 1]", omega_m),
          "a flat universe with a cosmological constant needs 0 < omega_m <= 1");
  require(z > -1, text("redshift {:g} is not above -1", z), "give redshifts of the past, z >= 0");
  const double a = 1 / (1 + z);
  const double omega_l = 1 - omega_m;
  // (a E)^-3 = a^1.5 (omega_m + omega_l a^3)^-1.5; with a = t^2 the integrand is smooth at 0.
  const auto integrand = [&](double t) {
    return 2 * std::pow(t, 4) * std::pow(omega_m + omega_l * std::pow(t, 6), -1.5);
  };
  const double integral = simpson(integrand, 0, std::sqrt(a), 512);
  return 2.5 * omega_m * std::sqrt(omega_m / (a * a * a) + omega_l) * integral;
}

double growth_factor(double omega_m, double z) {
  return growing_mode(omega_m, z) / growing_mode(omega_m, 0);
}

}  // namespace halomesh
