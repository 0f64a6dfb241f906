// SPDX-License-Identifier: Apache-2.0
// The transfer function fit and the normalization of the spectrum.
#include "src/synth/power_spectrum.hpp"

#include <cmath>
#include <numbers>

#include "error.hpp"
#include "src/synth/simpson.hpp"

namespace halomesh {
namespace {

constexpr double kCmbKelvin = 2.728;  // the temperature the fit was made with: Fixsen et al. 1996

const Cosmology& checked(const Cosmology& c) {
  require(c.omega_m > 0 && c.omega_m <= 1 && c.omega_b >= 0 && c.omega_b < c.omega_m &&
              c.sigma_8 > 0 && c.h > 0 && std::isfinite(c.n_s) && std::isfinite(c.sigma_8) &&
              std::isfinite(c.h),
          text("no universe has omega_m {:g}, omega_b {:g}, sigma_8 {:g}, n_s {:g}, h {:g}",
               c.omega_m, c.omega_b, c.sigma_8, c.n_s, c.h),
          "needed: 0 <= omega_b < omega_m <= 1, sigma_8 > 0, h > 0, all finite");
  return c;
}

}  // namespace

double top_hat_window(double x) {
  // Below 0.01 the subtraction loses digits; the series' next term is x^4/280 < 4e-11.
  if (std::abs(x) < 0.01) return 1 - x * x / 10;
  return 3 * (std::sin(x) - x * std::cos(x)) / (x * x * x);
}

TransferFunction::TransferFunction(const Cosmology& c) {
  checked(c);
  const double omega_m_h2 = c.omega_m * c.h * c.h;
  const double omega_b_h2 = c.omega_b * c.h * c.h;
  const double baryon_fraction = c.omega_b / c.omega_m;
  // Eq. 26, in Mpc; times h for Mpc/h.
  const double sound_horizon_mpc =
      44.5 * std::log(9.83 / omega_m_h2) / std::sqrt(1 + 10 * std::pow(omega_b_h2, 0.75));
  sound_horizon_mpc_h_ = sound_horizon_mpc * c.h;
  // Eq. 31.
  alpha_gamma_ = 1 - 0.328 * std::log(431 * omega_m_h2) * baryon_fraction +
                 0.38 * std::log(22.3 * omega_m_h2) * baryon_fraction * baryon_fraction;
  shape_ = c.omega_m * c.h;
  theta_squared_ = (kCmbKelvin / 2.7) * (kCmbKelvin / 2.7);
}

double TransferFunction::operator()(double k) const {
  // Eq. 30 (k s has no unit, so h cancels), eq. 28, eq. 29.
  const double ks = 0.43 * k * sound_horizon_mpc_h_;
  const double gamma = shape_ * (alpha_gamma_ + (1 - alpha_gamma_) / (1 + ks * ks * ks * ks));
  const double q = k * theta_squared_ / gamma;
  const double l0 = std::log(2 * std::numbers::e + 1.8 * q);
  const double c0 = 14.2 + 731 / (1 + 62.5 * q);
  return l0 / (l0 + c0 * q * q);
}

PowerSpectrum::PowerSpectrum(const Cosmology& c) : transfer_(c), n_s_(c.n_s) {
  const double unnormalized = sigma(8);
  amplitude_ = c.sigma_8 * c.sigma_8 / (unnormalized * unnormalized);
}

double PowerSpectrum::operator()(double k) const {
  if (k <= 0) return 0;
  const double t = transfer_(k);
  return amplitude_ * std::pow(k, n_s_) * t * t;
}

double PowerSpectrum::sigma(double radius) const {
  // The integral in ln x, x = k R, goes from scales of 1e5 R (below, the integrand falls as
  // x^(3+n_s)) to R/500 (beyond, as x^-4 and faster): the rest is below 1e-9 of the sum.
  const auto integrand = [&](double ln_x) {
    const double x = std::exp(ln_x);
    const double k = x / radius;
    const double w = top_hat_window(x);
    return k * k * k * (*this)(k)*w * w;
  };
  const double integral = simpson(integrand, std::log(1e-5), std::log(500.0), 8192);
  return std::sqrt(integral / (2 * std::numbers::pi * std::numbers::pi));
}

}  // namespace halomesh
