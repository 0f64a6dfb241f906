// SPDX-License-Identifier: Apache-2.0
// Gaussian random density fields with a given power spectrum, as Fourier modes on a cubic grid.
#pragma once

#include <cstdint>

#include "src/synth/fft3d.hpp"
#include "src/synth/power_spectrum.hpp"

namespace halomesh {

/// Fills the grid with independent N(0, 1) reals: cell (d, h, w) is a pure function of (seed,
/// universe, (d n + h) n + w), for any number of threads. Throws Error when `universe` is negative
/// or does not fit 32 bits.
void fill_white_noise(SpectralGrid& grid, std::uint64_t seed, std::int64_t universe);

/// The modes of the linear density contrast of a periodic universe at z = 0, replacing the grid's
/// content. Conventions, with n the extent, V = (n voxel)^3 and k = 2 pi / (n voxel) (f_d, f_h,
/// f_w):
///   delta(x) = n^-3 sum_k delta_k exp(i k x)         (Fft3d::backward, divided by n^3)
///   <|delta_k|^2> = n^6 P(|k|) / V,                  so <delta(x)^2> = sum_k P(|k|) / V.
/// The modes are those of white noise in space, so delta_-k = conj(delta_k) holds everywhere,
/// Nyquist planes included; delta_0 = 0. Frequencies above the grid's own are absent.
void fill_density_modes(SpectralGrid& grid, const Fft3d& fft, const PowerSpectrum& spectrum,
                        double voxel_mpc_h, std::uint64_t seed, std::int64_t universe);

}  // namespace halomesh
