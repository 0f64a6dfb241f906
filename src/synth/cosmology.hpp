// SPDX-License-Identifier: Apache-2.0
// The four parameters to be learned from a synthetic universe: their ranges and their draw from a
// seed.
#pragma once

#include <array>
#include <cstdint>

namespace halomesh {

/// A flat LCDM cosmology: Omega_Lambda = 1 - omega_m, no neutrino mass, no radiation.
struct Cosmology {
  double omega_m = 0.30;   // matter density today / critical density
  double sigma_8 = 0.80;   // rms of the linear density at z = 0 in spheres of 8 Mpc/h
  double n_s = 0.96;       // slope of the primordial power spectrum
  double h = 0.70;         // H_0 / (100 km/s/Mpc)
  double omega_b = 0.045;  // baryon density today / critical density; the published set fixes it

  friend bool operator==(const Cosmology&, const Cosmology&) = default;
};

/// Half width of the range of each drawn parameter around the centre `Cosmology{}`, as a fraction
/// of the centre, in the published set: the `spread` of the functions below. A wider spread makes
/// the task easier.
///
/// Centre, range, distribution (uniform), order and the fixed omega_b are those of the script that
/// made the universes of the CosmoFlow benchmark: github.com/NERSC/cosmoflow-sims, commit 0470136,
/// janWorkflow/prepMusic_4par.sh (its names "ics_2019-03_a..." are those of the published files).
/// Unconfirmed: that the release "2019_05_4parE" was made by exactly this revision.
inline constexpr double kParameterSpread = 0.10;

/// The learning targets of a cosmology: (omega_m, sigma_8, n_s, h), each mapped linearly so that
/// its range, centre (1 +- spread), is [-1, 1] (the published "unitPar").
std::array<float, 4> unit_targets(const Cosmology& cosmology, double spread = kParameterSpread);

/// The inverse of unit_targets; omega_b keeps its fixed value.
Cosmology cosmology_from_unit(const std::array<double, 4>& unit, double spread = kParameterSpread);

/// The cosmology of universe `universe`: a pure function of (seed, universe, spread), uniform over
/// the ranges. Throws Error when `universe` is negative or does not fit 32 bits.
Cosmology draw_cosmology(std::uint64_t seed, std::int64_t universe,
                         double spread = kParameterSpread);

}  // namespace halomesh
