// SPDX-License-Identifier: Apache-2.0
// The linear matter power spectrum of a cosmology at z = 0.
#pragma once

#include "src/synth/cosmology.hpp"

namespace halomesh {

/// The Fourier transform of a sphere of unit mean, at x = k R: 3 (sin x - x cos x) / x^3.
double top_hat_window(double x);

/// The transfer function of Eisenstein & Hu 1998, ApJ 496, 605, section 4.2: the smooth
/// ("no-wiggle") fit, with the baryons' suppression of small scales but without their acoustic
/// oscillations, which no box below about 150 Mpc/h can show. k in h/Mpc; T -> 1 for k -> 0.
/// (The published universes use the same paper's fit with oscillations.)
class TransferFunction {
 public:
  explicit TransferFunction(const Cosmology& cosmology);
  double operator()(double k_h_mpc) const;

 private:
  double sound_horizon_mpc_h_, alpha_gamma_, shape_, theta_squared_;
};

/// P(k) = A k^n_s T(k)^2 at z = 0, in (Mpc/h)^3 for k in h/Mpc, with
/// <delta_k delta*_k'> = (2 pi)^3 P(k) dirac(k - k'); A is set so that sigma(8) == sigma_8.
class PowerSpectrum {
 public:
  /// Throws Error for invalid parameters (not positive, omega_b >= omega_m, ...).
  explicit PowerSpectrum(const Cosmology& cosmology);

  /// P(k); 0 at k = 0.
  double operator()(double k_h_mpc) const;

  /// The rms of the linear density in spheres of this radius:
  /// sigma(R)^2 = int dk k^2 / (2 pi^2) P(k) top_hat_window(k R)^2.
  double sigma(double radius_mpc_h) const;

 private:
  TransferFunction transfer_;
  double n_s_, amplitude_ = 1;
};

}  // namespace halomesh
