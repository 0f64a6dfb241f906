// SPDX-License-Identifier: Apache-2.0
// Computes displacement fields by Fourier transform, and counts displaced particles.
#include "src/synth/zeldovich.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "error.hpp"

namespace halomesh {
namespace {

using Complex = std::complex<double>;

// exp(i k shift) along one axis, for every index; 0 where the frequency is the Nyquist one.
std::vector<Complex> phases(std::int64_t n, double shift) {
  std::vector<Complex> result(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const auto f = static_cast<double>(frequency(i, n));
    const bool nyquist = 2 * i == n;
    result[static_cast<std::size_t>(i)] =
        nyquist ? 0 : std::polar(1.0, 2 * std::numbers::pi * f * shift / static_cast<double>(n));
  }
  return result;
}

// The voxel of a point `move` away from the centre of voxel i; voxel i covers [i, i+1).
std::int64_t voxel_of(std::int64_t i, double move, std::int64_t n) {
  const std::int64_t voxel =
      static_cast<std::int64_t>(std::floor(static_cast<double>(i) + 0.5 + move)) % n;
  return voxel < 0 ? voxel + n : voxel;
}

}  // namespace

void displacement(const SpectralGrid& density, const Fft3d& fft, int axis, const double (&shift)[3],
                  SpectralGrid& psi) {
  const std::int64_t n = density.extent();
  require(psi.extent() == n, text("density of {}^3, displacement of {}^3", n, psi.extent()));
  const std::array<std::vector<Complex>, 3> phase{phases(n, shift[0]), phases(n, shift[1]),
                                                  phases(n, shift[2])};
  const double cells = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  // In voxels k = 2 pi f / n, so k/k^2 = n / (2 pi) f / f^2; the rest undoes the plain FFT's n^3.
  const double scale = static_cast<double>(n) / (2 * std::numbers::pi * cells);
#pragma omp parallel for if (worth_sharing(n))
  for (std::int64_t d = 0; d < n; ++d) {
    for (std::int64_t h = 0; h < n; ++h) {
      const std::int64_t fd = frequency(d, n), fh = frequency(h, n);
      const Complex plane =
          phase[0][static_cast<std::size_t>(d)] * phase[1][static_cast<std::size_t>(h)];
      const Complex* src = density.modes(d, h);
      Complex* dst = psi.modes(d, h);
      for (std::int64_t w = 0; w < density.half(); ++w) {
        const std::int64_t f2 = fd * fd + fh * fh + w * w;
        const std::int64_t f = axis == 0 ? fd : axis == 1 ? fh : w;
        const Complex factor(
            0, f2 == 0 ? 0 : scale * static_cast<double>(f) / static_cast<double>(f2));
        dst[w] = src[w] * factor * plane * phase[2][static_cast<std::size_t>(w)];
      }
    }
  }
  fft.backward(psi);
}

void count_particles(const SpectralGrid (&psi)[3], const double (&shift)[3],
                     std::span<const double> growths, std::span<std::int16_t> counts) {
  const std::int64_t n = psi[0].extent(), channels = std::ssize(growths);
  require(std::ssize(counts) == n * n * n * channels,
          text("counts have {} elements, needed {}", counts.size(), n * n * n * channels));
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::int64_t full = kNone;  // the first element of counts that overflowed
#pragma omp parallel for reduction(min : full) if (worth_sharing(n))
  for (std::int64_t d = 0; d < n; ++d) {
    for (std::int64_t h = 0; h < n; ++h) {
      const double* pd = psi[0].row(d, h);
      const double* ph = psi[1].row(d, h);
      const double* pw = psi[2].row(d, h);
      for (std::int64_t w = 0; w < n; ++w) {
        for (std::int64_t c = 0; c < channels; ++c) {
          const double growth = growths[static_cast<std::size_t>(c)];
          const std::int64_t voxel = (voxel_of(d, shift[0] + growth * pd[w], n) * n +
                                      voxel_of(h, shift[1] + growth * ph[w], n)) *
                                         n +
                                     voxel_of(w, shift[2] + growth * pw[w], n);
          const std::int64_t element = voxel * channels + c;
          std::atomic_ref<std::int16_t> count(counts[static_cast<std::size_t>(element)]);
          if (count.fetch_add(1, std::memory_order_relaxed) ==
              std::numeric_limits<std::int16_t>::max())
            full = std::min(full, element);
        }
      }
    }
  }
  const std::int64_t voxel = full / channels;
  require(full == kNone,
          text("voxel ({}, {}, {}) of channel {} holds more than 32767 particles", voxel / (n * n),
               voxel / n % n, voxel % n, full % channels),
          "use fewer particles per voxel or larger voxels");
}

}  // namespace halomesh
