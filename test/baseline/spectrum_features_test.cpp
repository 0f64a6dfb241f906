// SPDX-License-Identifier: Apache-2.0
// Power in bins: of plane waves, in total, and as features of counts.
#include "src/baseline/spectrum_features.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <random>
#include <vector>

using namespace halomesh;

namespace {

void fill(SpectralGrid& grid,
          const std::function<double(std::int64_t, std::int64_t, std::int64_t)>& f) {
  for (std::int64_t d = 0; d < grid.extent(); ++d)
    for (std::int64_t h = 0; h < grid.extent(); ++h)
      for (std::int64_t w = 0; w < grid.extent(); ++w) grid.row(d, h)[w] = f(d, h, w);
}

}  // namespace

TEST_CASE("a plane wave has its power in the bin of its wave number alone") {
  constexpr std::int64_t kExtent = 16;
  const BinnedPower power(kExtent);
  // 1, 1.17, .. 8 to whole numbers.
  REQUIRE(std::vector(power.borders().begin(), power.borders().end()) ==
          std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 8});
  struct Wave {
    std::array<std::int64_t, 3> k;
    std::size_t bin;
  };
  // |k| = 1, sqrt(3), 2, sqrt(17), sqrt(35), 7, sqrt(65), 8 sqrt(3).
  const std::vector<Wave> waves = {{{0, 0, 1}, 0}, {{1, -1, 1}, 0}, {{0, 2, 0}, 1}, {{4, 1, 0}, 3},
                                   {{5, 3, 1}, 4}, {{0, 0, 7}, 5},  {{7, 4, 0}, 6}, {{8, 8, 8}, 6}};
  SpectralGrid grid(kExtent);
  int compared = 0;
  for (const Wave& wave : waves) {
    const auto& k = wave.k;
    fill(grid, [&](std::int64_t d, std::int64_t h, std::int64_t w) {
      const auto phase = static_cast<double>(k[0] * d + k[1] * h + k[2] * w);
      return std::cos(2 * std::numbers::pi * phase / kExtent);
    });
    const std::vector<double> bins = power.of(grid);
    for (std::size_t b = 0; b < bins.size(); ++b, ++compared) {
      CAPTURE(k[0]);
      CAPTURE(k[1]);
      CAPTURE(k[2]);
      CAPTURE(b);
      // |F| is n^3 or n^3/2 at the wave: at least 2^22 over fewer than 2^11 modes.
      if (b == wave.bin)
        CHECK(bins[b] > 1e3);
      else
        CHECK(bins[b] < 1e-16);
    }
  }
  CHECK(compared == 56);
}

// Parseval: the sum of f^2 is the sum of |F|^2 / n^3. Fields without modes at k_w = 0 and n/2,
// which have no other half, have twice the power of the stored modes.
TEST_CASE("the bins together have the power of the field") {
  constexpr std::int64_t kExtent = 12;
  std::mt19937 noise(1);
  std::normal_distribution<double> normal;
  SpectralGrid grid(kExtent);
  double squares = 0;
  for (std::int64_t d = 0; d < kExtent; ++d)
    for (std::int64_t h = 0; h < kExtent; ++h) {
      double* const row = grid.row(d, h);
      std::array<double, 2> mean{};  // of even and of odd voxels
      for (std::int64_t w = 0; w < kExtent; ++w) {
        row[w] = normal(noise);
        mean[static_cast<std::size_t>(w % 2)] += 2 * row[w] / kExtent;
      }
      for (std::int64_t w = 0; w < kExtent; ++w) {
        row[w] -= mean[static_cast<std::size_t>(w % 2)];
        squares += row[w] * row[w];
      }
    }
  const BinnedPower power(kExtent);
  const auto borders = power.borders();
  std::vector<double> modes(borders.size());
  for (std::int64_t d = 0; d < kExtent; ++d)
    for (std::int64_t h = 0; h < kExtent; ++h)
      for (std::int64_t w = 0; w <= kExtent / 2; ++w) {
        const auto part = [](std::int64_t i) {
          return static_cast<double>(std::min(i, kExtent - i));
        };
        const double k = std::hypot(part(d), part(h), part(w));
        for (std::size_t b = borders.size(); b-- > 0;)
          if (k >= static_cast<double>(borders[b])) {
            ++modes[b];
            break;
          }
      }
  const std::vector<double> bins = power.of(grid);
  double total = 0;
  for (std::size_t b = 0; b < bins.size(); ++b) total += 2 * modes[b] * bins[b];
  // 1728 terms, each with a relative rounding of a few 2^-53.
  CHECK(total / (kExtent * kExtent * kExtent) == doctest::Approx(squares).epsilon(1e-12));
  CHECK(squares > 1000);
}

TEST_CASE("features are logarithms of the contrast's power, channel by channel") {
  constexpr std::int64_t kExtent = 8;
  constexpr std::size_t kVoxels = kExtent * kExtent * kExtent;
  SpectrumFeatures features(kExtent, 2);
  REQUIRE(features.size() == 2 * 4);  // borders 1, 2, 3, 4
  std::vector<std::int16_t> counts(2 * kVoxels);
  std::mt19937 noise(2);
  for (std::size_t i = 0; i < kVoxels; ++i) {
    counts[2 * i] = static_cast<std::int16_t>(noise() % 50);
    counts[2 * i + 1] = static_cast<std::int16_t>(3 * counts[2 * i]);
  }
  const std::vector<double> some = features.of(counts);
  REQUIRE(some.size() == 8);
  for (std::size_t b = 0; b < 4; ++b) {
    CHECK(std::isfinite(some[b]));
    CHECK(some[b] == doctest::Approx(some[4 + b]).epsilon(1e-12));  // the same contrast
  }

  // Without a particle or without contrast there is no power.
  for (std::size_t i = 0; i < kVoxels; ++i) counts[2 * i] = 0, counts[2 * i + 1] = 7;
  for (const double feature : features.of(counts)) CHECK(feature <= std::log(1e-20));
}
