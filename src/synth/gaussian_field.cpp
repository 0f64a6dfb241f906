// SPDX-License-Identifier: Apache-2.0
// White noise from the counter, coloured by the square root of the power spectrum.
#include "src/synth/gaussian_field.hpp"

#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "error.hpp"
#include "narrow.hpp"
#include "rng.hpp"
#include "src/synth/random_streams.hpp"

namespace halomesh {
namespace {

double unit_interval(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>(((std::uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

// Two independent normals by Box & Muller 1958 (Ann. Math. Stat. 29, 610).
std::array<double, 2> normal_pair(const CounterRng& rng, std::uint64_t index) {
  const auto words = rng.block(index);
  const double u = 1 - unit_interval(words[0], words[1]);  // in (0, 1]: its logarithm is finite
  const double angle = 2 * std::numbers::pi * unit_interval(words[2], words[3]);
  const double radius = std::sqrt(-2 * std::log(u));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace

void fill_white_noise(SpectralGrid& grid, std::uint64_t seed, std::int64_t universe) {
  const CounterRng rng(seed, RandomUse::kSynth, narrow<std::uint32_t>(universe),
                       kWhiteNoiseSubstream);
  const std::int64_t n = grid.extent();
#pragma omp parallel for if (worth_sharing(n))
  for (std::int64_t d = 0; d < n; ++d) {
    for (std::int64_t h = 0; h < n; ++h) {
      double* row = grid.row(d, h);
      const std::int64_t first = (d * n + h) * n;
      // A pair serves cells 2i and 2i+1; with odd n a pair may straddle two rows.
      for (std::int64_t w = 0; w < n;) {
        const std::int64_t cell = first + w;
        const auto pair = normal_pair(rng, static_cast<std::uint64_t>(cell / 2));
        if (cell % 2 == 0) row[w++] = pair[0];
        if (w < n) row[w++] = pair[1];
      }
    }
  }
}

void fill_density_modes(SpectralGrid& grid, const Fft3d& fft, const PowerSpectrum& spectrum,
                        double voxel, std::uint64_t seed, std::int64_t universe) {
  require(voxel > 0 && std::isfinite(voxel), text("voxel size {:g} Mpc/h is not positive", voxel),
          "give the voxel's edge in Mpc/h, such as 1");
  const std::int64_t n = grid.extent();
  const std::int64_t top = n / 2;
  // |k|^2 takes few distinct values on a grid: one P(k) for each integer |f|^2.
  const double fundamental = 2 * std::numbers::pi / (static_cast<double>(n) * voxel);
  std::vector<double> factor(static_cast<std::size_t>(3 * top * top + 1));
#pragma omp parallel for if (worth_sharing(n))
  for (std::size_t f2 = 0; f2 < factor.size(); ++f2)
    factor[f2] = std::sqrt(spectrum(fundamental * std::sqrt(static_cast<double>(f2))) /
                           (voxel * voxel * voxel));

  fill_white_noise(grid, seed, universe);
  fft.forward(grid);  // <|noise_k|^2> = n^3
#pragma omp parallel for if (worth_sharing(n))
  for (std::int64_t d = 0; d < n; ++d) {
    for (std::int64_t h = 0; h < n; ++h) {
      const std::int64_t fd = frequency(d, n), fh = frequency(h, n);
      std::complex<double>* modes = grid.modes(d, h);
      for (std::int64_t w = 0; w < grid.half(); ++w)
        modes[w] *= factor[static_cast<std::size_t>(fd * fd + fh * fh + w * w)];
    }
  }
}

}  // namespace halomesh
