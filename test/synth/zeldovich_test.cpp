// SPDX-License-Identifier: Apache-2.0
// Displacements of single waves against their formula, and the counting of particles.
#include "src/synth/zeldovich.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <vector>

#include "error.hpp"

using namespace halomesh;

namespace {

void fill(SpectralGrid& grid, double value) {
  for (std::int64_t d = 0; d < grid.extent(); ++d)
    for (std::int64_t h = 0; h < grid.extent(); ++h)
      std::fill_n(grid.row(d, h), grid.extent(), value);
}

struct Displacements {
  explicit Displacements(std::int64_t n) : psi{SpectralGrid(n), SpectralGrid(n), SpectralGrid(n)} {
    for (auto& p : psi) fill(p, 0);
  }
  SpectralGrid psi[3];
};

constexpr double kNoShift[3] = {0, 0, 0};
constexpr std::array kAtOnce = {1.0};  // one channel of growth 1

}  // namespace

TEST_CASE("a plane wave's displacement is -A k/k^2 sin(k q), on the lattice and between") {
  constexpr std::int64_t n = 12;
  constexpr double kAmplitude = 0.7, kPhase = 0.4;
  const Fft3d fft(n);
  int compared = 0;
  const int waves[][3] = {{1, 0, 0}, {0, 2, 0}, {0, 0, 3}, {2, -1, 3}, {-5, 4, 0}};
  const double shifts[][3] = {{0, 0, 0}, {0.25, -0.25, 0.25}, {-0.5, 0.1, 0.3}};
  for (const auto& f : waves) {
    double k[3], k2 = 0;
    for (int i = 0; i < 3; ++i) {
      k[i] = 2 * std::numbers::pi * f[i] / static_cast<double>(n);
      k2 += k[i] * k[i];
    }
    const auto argument = [&](std::int64_t d, std::int64_t h, std::int64_t w, const double(&s)[3]) {
      return k[0] * (static_cast<double>(d) + s[0]) + k[1] * (static_cast<double>(h) + s[1]) +
             k[2] * (static_cast<double>(w) + s[2]) + kPhase;
    };
    SpectralGrid density(n), psi(n);
    for (std::int64_t d = 0; d < n; ++d)
      for (std::int64_t h = 0; h < n; ++h)
        for (std::int64_t w = 0; w < n; ++w)
          density.row(d, h)[w] = kAmplitude * std::cos(argument(d, h, w, kNoShift));
    fft.forward(density);
    for (const auto& shift : shifts)
      for (int axis = 0; axis < 3; ++axis) {
        displacement(density, fft, axis, shift, psi);
        for (std::int64_t d = 0; d < n; ++d)
          for (std::int64_t h = 0; h < n; ++h)
            for (std::int64_t w = 0; w < n; ++w) {
              // delta = A cos(k q) = -div psi. Amplitudes are of order 1: a few eps log2(n^3).
              const double expected =
                  -kAmplitude * k[axis] / k2 * std::sin(argument(d, h, w, shift));
              REQUIRE(std::abs(psi.row(d, h)[w] - expected) < 1e-13);
              ++compared;
            }
      }
  }
  CHECK(compared == 5 * 3 * 3 * n * n * n);
}

TEST_CASE("a wave at the Nyquist frequency, or a constant, moves nothing") {
  constexpr std::int64_t n = 8;
  const Fft3d fft(n);
  SpectralGrid density(n), psi(n);
  for (std::int64_t d = 0; d < n; ++d)
    for (std::int64_t h = 0; h < n; ++h)
      for (std::int64_t w = 0; w < n; ++w) {
        // A constant, a wave at the Nyquist frequency along h, and one along w that also varies
        // along d (whose modes are no longer their own partners).
        const double slow = std::cos(2 * std::numbers::pi * static_cast<double>(d) / n + 0.3);
        density.row(d, h)[w] = 3 + (h % 2 == 0 ? 1 : -1) + (w % 2 == 0 ? slow : -slow);
      }
  fft.forward(density);
  for (int axis = 0; axis < 3; ++axis) {
    displacement(density, fft, axis, {0.25, 0.25, 0.25}, psi);
    for (std::int64_t d = 0; d < n; ++d)
      for (std::int64_t h = 0; h < n; ++h)
        for (std::int64_t w = 0; w < n; ++w) REQUIRE(std::abs(psi.row(d, h)[w]) < 1e-13);
  }
}

TEST_CASE("one moved particle leaves its voxel for the right one, with periodic wrap") {
  constexpr std::int64_t n = 5, kChannels = 2;
  struct Row {
    double move[3], growth;
    std::int64_t to[3];
  };
  // The particle starts at the centre (4.5, 0.5, 2.5) of voxel (4, 0, 2).
  const std::vector<Row> rows = {{{0.49, 0, 0}, 1, {4, 0, 2}},  {{0.51, 0, 0}, 1, {0, 0, 2}},
                                 {{0, -0.51, 0}, 1, {4, 4, 2}}, {{0, -5.51, 10}, 1, {4, 4, 2}},
                                 {{0, 0, -13}, 1, {4, 0, 4}},   {{0, 0, 2}, 0.5, {4, 0, 3}},
                                 {{0, 0, 2}, 0, {4, 0, 2}}};
  int compared = 0;
  for (const Row& row : rows) {
    Displacements moved(n);
    for (int axis = 0; axis < 3; ++axis) moved.psi[axis].row(4, 0)[2] = row.move[axis];
    std::vector<std::int16_t> counts(n * n * n * kChannels);
    count_particles(moved.psi, kNoShift, std::array{0.0, row.growth}, counts);
    std::vector<std::int16_t> expected(counts.size());
    std::fill(expected.begin(), expected.end(), std::int16_t{1});  // channel 0 stays still
    const auto at = [](std::int64_t d, std::int64_t h, std::int64_t w) {
      return static_cast<std::size_t>(((d * n + h) * n + w) * kChannels + 1);
    };
    --expected[at(4, 0, 2)];
    ++expected[at(row.to[0], row.to[1], row.to[2])];
    CHECK(counts == expected);
    ++compared;
  }
  CHECK(compared == 7);
}

TEST_CASE("a shifted sub-lattice crosses a voxel's face where it should") {
  constexpr std::int64_t n = 4;
  for (const double shift : {-0.25, 0.25}) {
    Displacements moved(n);
    fill(moved.psi[2], 0.3);  // 0.5 - 0.25 + 0.3 stays, 0.5 + 0.25 + 0.3 leaves
    moved.psi[2].row(1, 1)[1] = 0;
    std::vector<std::int16_t> counts(n * n * n);
    count_particles(moved.psi, {0, 0, shift}, kAtOnce, counts);
    const std::int16_t stayed = counts[(1 * n + 1) * n + 1], next = counts[(1 * n + 1) * n + 2];
    CHECK(stayed == (shift < 0 ? 1 : 2));
    CHECK(next == (shift < 0 ? 1 : 0));
    CHECK(std::accumulate(counts.begin(), counts.end(), 0) == n * n * n);
  }
}

TEST_CASE("a voxel that would overflow int16 is an error that names it") {
  constexpr std::int64_t n = 4;
  const Displacements still(n);
  std::vector<std::int16_t> counts(n * n * n);
  const std::size_t voxel = (2 * n + 1) * n + 3;
  counts[voxel] = std::numeric_limits<std::int16_t>::max() - 1;
  count_particles(still.psi, kNoShift, kAtOnce, counts);  // reaches the largest value: allowed
  CHECK(counts[voxel] == std::numeric_limits<std::int16_t>::max());
  CHECK_THROWS_WITH_AS(count_particles(still.psi, kNoShift, kAtOnce, counts),
                       doctest::Contains("(2, 1, 3) of channel 0"), Error);
  std::vector<std::int16_t> wrong(3);
  CHECK_THROWS_AS(count_particles(still.psi, kNoShift, kAtOnce, wrong), Error);
}
