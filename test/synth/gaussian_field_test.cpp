// SPDX-License-Identifier: Apache-2.0
// The field against its spectrum: power in shells, sigma_8 of a realisation, Hermitian symmetry.
// Bounds are sample variances: the expected scatter of what is measured, times five.
#include "src/synth/gaussian_field.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "error.hpp"

using namespace halomesh;

namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// Calls f(mode, |frequency|^2, weight) for each stored mode but the zero one; weight 2 where the
// mode stands for its conjugate partner as well.
template <class Function>
void for_each_mode(const SpectralGrid& grid, const Function& f) {
  const std::int64_t n = grid.extent();
  for (std::int64_t d = 0; d < n; ++d)
    for (std::int64_t h = 0; h < n; ++h)
      for (std::int64_t w = 0; w < grid.half(); ++w) {
        const std::int64_t fd = frequency(d, n), fh = frequency(h, n);
        const std::int64_t f2 = fd * fd + fh * fh + w * w;
        if (f2 != 0) f(grid.modes(d, h)[w], f2, w == 0 || 2 * w == n ? 1 : 2);
      }
}

SpectralGrid density_modes(const PowerSpectrum& spectrum, std::int64_t n, double voxel,
                           std::uint64_t seed) {
  SpectralGrid grid(n);
  fill_density_modes(grid, Fft3d(n), spectrum, voxel, seed, 0);
  return grid;
}

}  // namespace

TEST_CASE("the power of a box follows the input spectrum in every shell") {
  constexpr std::int64_t n = 64;
  constexpr double kVoxel = 4, kLength = n * kVoxel;
  const PowerSpectrum spectrum{Cosmology{}};
  const SpectralGrid grid = density_modes(spectrum, n, kVoxel, 11);
  // All frequencies, up to the corners of the Nyquist cube; shell s holds |f| in [s, s+1).
  std::vector<double> ratio(n), modes(n);
  const double cells = n * n * n, volume = kLength * kLength * kLength;
  for_each_mode(grid, [&](const std::complex<double>& mode, std::int64_t f2, double weight) {
    const double f = std::sqrt(static_cast<double>(f2));
    const double power = std::norm(mode) * volume / (cells * cells);
    const auto shell = static_cast<std::size_t>(f);
    ratio[shell] += weight * power / spectrum(kTwoPi * f / kLength);
    modes[shell] += weight;
  });
  // A conjugate pair shares one |delta|^2, exponential: variance (2 P)^2 for its sum; a mode that
  // is its own partner is real: variance 2 P^2. Either way the mean over N modes scatters by
  // sqrt(2/N) P, exactly.
  double all_ratio = 0, all_modes = 0, squares = 0;
  int shells = 0;
  for (std::size_t s = 1; s < ratio.size(); ++s) {
    if (modes[s] == 0) continue;
    const double z = (ratio[s] / modes[s] - 1) / std::sqrt(2 / modes[s]);
    CAPTURE(s);
    CAPTURE(modes[s]);
    CHECK(std::abs(z) < 5);
    squares += z * z;
    all_ratio += ratio[s];
    all_modes += modes[s];
    ++shells;
  }
  CHECK(shells == 55);  // floor(32 sqrt 3) shells: none is skipped
  CHECK(all_modes == cells - 1);
  CHECK(std::abs(all_ratio / all_modes - 1) < 5 * std::sqrt(2 / all_modes));
  // The scatter is itself right: the mean of z^2 is 1 with scatter sqrt(2 / shells) = 0.19.
  CHECK(std::abs(squares / shells - 1) < 5 * std::sqrt(2.0 / shells));
}

TEST_CASE("sigma_8 measured on a realisation agrees with the cosmology's") {
  constexpr std::int64_t n = 128;
  constexpr double kVoxel = 4, kLength = n * kVoxel, kRadius = 8;
  const Cosmology cosmology{.sigma_8 = 0.85};
  const PowerSpectrum spectrum(cosmology);
  const SpectralGrid grid = density_modes(spectrum, n, kVoxel, 3);
  const double cells = n * n * n, volume = kLength * kLength * kLength;
  double measured = 0, expected = 0, variance = 0;
  for_each_mode(grid, [&](const std::complex<double>& mode, std::int64_t f2, double weight) {
    const double k = kTwoPi * std::sqrt(static_cast<double>(f2)) / kLength;
    const double window = top_hat_window(k * kRadius) * top_hat_window(k * kRadius);
    measured += weight * std::norm(mode) / (cells * cells) * window;
    expected += weight * spectrum(k) / volume * window;
    variance += weight * 2 * std::pow(spectrum(k) / volume * window, 2);  // as in the shells above
  });
  // Sample variance of this box, and what a box of this size and resolution cannot hold: waves
  // longer than it, and those shorter than two voxels, whose share is bounded by the spectrum
  // integrals below; waves between neighbouring modes of the box average out.
  CHECK(std::abs(measured - expected) < 5 * std::sqrt(variance));
  double missing = 0;
  const double fundamental = kTwoPi / kLength, nyquist = std::numbers::pi / kVoxel, step = 1e-4;
  for (double k = step / 2; k < 20; k += step)
    if (k < fundamental || k > nyquist)
      missing += step * k * k / (2 * std::numbers::pi * std::numbers::pi) * spectrum(k) *
                 std::pow(top_hat_window(k * kRadius), 2);
  CHECK(missing < 0.01 * expected);
  CHECK(std::abs(expected - cosmology.sigma_8 * cosmology.sigma_8) < missing);
  CHECK(std::sqrt(measured) == doctest::Approx(cosmology.sigma_8).epsilon(0.03));
}

TEST_CASE("modes are Hermitian, Nyquist planes included, and the field has no mean") {
  for (const std::int64_t n : {8, 9, 12}) {
    SpectralGrid grid = density_modes(PowerSpectrum{Cosmology{}}, n, 8, 4);
    CHECK(std::abs(grid.modes(0, 0)[0]) == 0);
    double largest = 0;
    for_each_mode(grid, [&](const std::complex<double>& m, std::int64_t, int) {
      largest = std::max(largest, std::abs(m));
    });
    // The transform of n^3 reals is exact to a few eps log2(n^3) of the largest mode.
    const double tolerance = 64 * 2.3e-16 * largest;
    int compared = 0;
    for (std::int64_t d = 0; d < n; ++d)
      for (std::int64_t h = 0; h < n; ++h)
        for (const std::int64_t w : {std::int64_t{0}, n / 2}) {
          if (w != 0 && 2 * w != n) continue;
          const auto partner = std::conj(grid.modes((n - d) % n, (n - h) % n)[w]);
          CHECK(std::abs(grid.modes(d, h)[w] - partner) <= tolerance);
          ++compared;
        }
    CHECK(compared == (n % 2 == 0 ? 2 : 1) * n * n);
    // So the transform to space and back loses nothing.
    SpectralGrid copy(n);
    const auto bytes = static_cast<std::size_t>(n * n * 2 * grid.half()) * sizeof(double);
    std::memcpy(copy.row(0, 0), grid.row(0, 0), bytes);
    const Fft3d fft(n);
    fft.backward(copy);
    fft.forward(copy);
    const double cells = static_cast<double>(n * n * n);
    for (std::int64_t d = 0; d < n; ++d)
      for (std::int64_t h = 0; h < n; ++h)
        for (std::int64_t w = 0; w < grid.half(); ++w)
          CHECK(std::abs(copy.modes(d, h)[w] / cells - grid.modes(d, h)[w]) <= 2 * tolerance);
  }
}

TEST_CASE("white noise is standard normal, without order, and tied to the cell") {
  constexpr std::int64_t n = 48;
  SpectralGrid a(n);
  fill_white_noise(a, 9, 2);
  double sum = 0, square = 0, fourth = 0, neighbours = 0;
  for (std::int64_t d = 0; d < n; ++d)
    for (std::int64_t h = 0; h < n; ++h)
      for (std::int64_t w = 0; w < n; ++w) {
        const double x = a.row(d, h)[w];
        sum += x;
        square += x * x;
        fourth += x * x * x * x;
        neighbours += x * a.row(d, h)[(w + 1) % n];
      }
  // Moments of a normal: variances 1, 2, 96 and 1 of x, x^2, x^4 and x y.
  const double cells = n * n * n;
  CHECK(std::abs(sum / cells) < 5 / std::sqrt(cells));
  CHECK(std::abs(square / cells - 1) < 5 * std::sqrt(2 / cells));
  CHECK(std::abs(fourth / cells - 3) < 5 * std::sqrt(96 / cells));
  CHECK(std::abs(neighbours / cells) < 5 / std::sqrt(cells));
  // An odd extent: pairs of cells straddle rows, and a cell's value is still that of its index.
  SpectralGrid odd(3), even(4);
  fill_white_noise(odd, 9, 2);
  fill_white_noise(even, 9, 2);
  for (std::int64_t i = 0; i < 27; ++i)
    CHECK(odd.row(i / 9, i / 3 % 3)[i % 3] == even.row(i / 16, i / 4 % 4)[i % 4]);
  CHECK_THROWS_AS(fill_white_noise(a, 9, -1), Error);
  CHECK_THROWS_AS(density_modes(PowerSpectrum{Cosmology{}}, 8, 0, 1), Error);
}
