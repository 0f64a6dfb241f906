// SPDX-License-Identifier: Apache-2.0
// Whole universes: conservation, reproducibility, growth of structure, cutting, learnability.
#include "src/synth/universe.hpp"

#include <doctest/doctest.h>
#include <omp.h>

#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "error.hpp"
#include "src/synth/gaussian_field.hpp"
#include "src/synth/growth.hpp"
#include "src/synth/zeldovich.hpp"

using namespace halomesh;

namespace {

std::vector<std::int16_t> copy_counts(const Universe& universe) {
  return {universe.counts().begin(), universe.counts().end()};
}

}  // namespace

TEST_CASE("every redshift holds every particle") {
  int compared = 0;
  for (const std::int64_t extent : {15, 16})
    for (const std::int64_t per_axis : {1, 2, 3}) {
      // Small voxels: displacements of many voxels, across the periodic faces.
      const UniverseOptions options{
          .extent = extent, .voxel_mpc_h = 1, .particles_per_voxel_axis = per_axis, .seed = 21};
      const Universe universe = generate_universe(options, 4);
      std::int64_t sums[4] = {};
      for (std::size_t i = 0; i < universe.counts().size(); ++i) {
        CHECK_FALSE(universe.counts()[i] < 0);
        sums[i % 4] += universe.counts()[i];
      }
      for (const std::int64_t sum : sums) {
        CHECK(sum == extent * extent * extent * per_axis * per_axis * per_axis);
        ++compared;
      }
    }
  CHECK(compared == 24);
}

TEST_CASE("a universe is a function of options and index: not of threads, order or neighbours") {
  UniverseOptions options{.extent = 48, .voxel_mpc_h = 2, .particles_per_voxel_axis = 1, .seed = 6};
  REQUIRE(worth_sharing(options.extent));
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto zero = copy_counts(generate_universe(options, 0));
  const auto one = copy_counts(generate_universe(options, 1));
  for (const int count : {2, 3, 7}) {
    omp_set_num_threads(count);
    CHECK(copy_counts(generate_universe(options, 1)) == one);
    CHECK(copy_counts(generate_universe(options, 0)) == zero);
  }
  omp_set_num_threads(threads);
  CHECK_FALSE(zero == one);
  options.extent = 16;
  UniverseOptions reseeded = options;
  reseeded.seed = 7;
  CHECK_FALSE(copy_counts(generate_universe(reseeded, 0)) ==
              copy_counts(generate_universe(options, 0)));
  // The noise differs too, not only the parameters.
  const Cosmology same;
  CHECK_FALSE(copy_counts(generate_universe(options, same, 0)) ==
              copy_counts(generate_universe(options, same, 1)));
  CHECK(generate_universe(options, 1).cosmology() == draw_cosmology(6, 1));
  CHECK(generate_universe(options, 1).targets() == unit_targets(draw_cosmology(6, 1)));
}

TEST_CASE("counts carry the linear field, grown by D(z), at large scales") {
  constexpr std::int64_t n = 64, kUniverses = 3;
  constexpr double kVoxel = 5, kLength = n * kVoxel;
  const UniverseOptions options{
      .extent = n, .voxel_mpc_h = kVoxel, .particles_per_voxel_axis = 2, .seed = 8};
  const Cosmology cosmology;
  const PowerSpectrum spectrum(cosmology);
  const Fft3d fft(n);
  SpectralGrid linear(n), counted(n);
  // Along one axis: <psi^2> = sum_k P / (3 k^2 V).
  double psi_squared = 0;
  double cross[4] = {}, power[4] = {}, damped[4] = {}, linear_power = 0;
  for (std::int64_t u = 0; u < kUniverses; ++u) {
    const Universe universe = generate_universe(options, cosmology, u);
    fill_density_modes(linear, fft, spectrum, kVoxel, options.seed, u);
    for (std::size_t c = 0; c < 4; ++c) {
      for (std::int64_t cell = 0; cell < n * n * n; ++cell)
        counted.row(cell / (n * n), cell / n % n)[cell % n] =
            universe.counts()[static_cast<std::size_t>(cell) * 4 + c] / 8.0 - 1;
      fft.forward(counted);
      psi_squared = 0;
      for (std::int64_t pass = 0; pass < 2; ++pass)  // first psi_squared, then what needs it
        for (std::int64_t d = 0; d < n; ++d)
          for (std::int64_t h = 0; h < n; ++h)
            for (std::int64_t w = 0; w < linear.half(); ++w) {
              const std::int64_t fd = frequency(d, n), fh = frequency(h, n);
              const std::int64_t f2 = fd * fd + fh * fh + w * w;
              if (f2 == 0) continue;
              const double weight = w == 0 || 2 * w == n ? 1 : 2;
              const double k = 2 * std::numbers::pi * std::sqrt(static_cast<double>(f2)) / kLength;
              if (pass == 0)
                psi_squared += weight * spectrum(k) / (3 * k * k * std::pow(kLength, 3));
              if (pass == 0 || f2 > 6) continue;
              const auto delta = linear.modes(d, h)[w], count = counted.modes(d, h)[w];
              const double growth = growth_factor(cosmology.omega_m, kRedshifts[c]);
              cross[c] += weight * (count * std::conj(delta)).real();
              power[c] += weight * std::norm(count);
              damped[c] += weight * std::norm(delta) * growth *
                           std::exp(-k * k * psi_squared * growth * growth / 2);
              if (c == 0) linear_power += weight * std::norm(delta);
            }
    }
  }
  REQUIRE(linear_power > 0);
  for (std::size_t c = 0; c < 4; ++c) {
    const double growth = growth_factor(cosmology.omega_m, kRedshifts[c]);
    CAPTURE(c);
    // The Zel'dovich field's mean response to the linear one is D exp(-k^2 D^2 <psi^2> / 2),
    // exactly (Crocce & Scoccimarro 2006, Phys. Rev. D 73, 063520). The rest of the field, at most
    // a tenth of the power here, adds a scatter of sqrt(0.1 / 240 modes) = 2 %.
    CHECK(cross[c] / damped[c] == doctest::Approx(1).epsilon(0.02));
    // Of the power, D^2 P, damping takes k^2 D^2 <psi^2> (0.08 at the largest k), and the coupling
    // of modes gives a part back; a count in nearest voxels takes (k voxel)^2 / 12 (0.005).
    CHECK(power[c] / linear_power / (growth * growth) == doctest::Approx(1).epsilon(0.08));
  }
}

TEST_CASE("boxes are cut in the published order: d slowest, w fastest") {
  const UniverseOptions options{.extent = 12, .boxes_per_axis = 3, .voxel_mpc_h = 2, .seed = 1};
  const Universe universe = generate_universe(options, 0);
  CHECK(options.boxes() == 27);
  CHECK(options.box_extent() == 4);
  std::vector<std::int16_t> box(static_cast<std::size_t>(options.box_elements()));
  std::int64_t index = 0, compared = 0;
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < 3; ++j)
      for (std::int64_t k = 0; k < 3; ++k, ++index) {
        universe.box(index, box);
        std::size_t at = 0;
        for (std::int64_t d = 4 * i; d < 4 * i + 4; ++d)
          for (std::int64_t h = 4 * j; h < 4 * j + 4; ++h)
            for (std::int64_t w = 4 * k; w < 4 * k + 4; ++w)
              for (std::int64_t c = 0; c < 4; ++c, ++compared)
                REQUIRE(
                    box[at++] ==
                    universe.counts()[static_cast<std::size_t>(((d * 12 + h) * 12 + w) * 4 + c)]);
      }
  CHECK(compared == 12 * 12 * 12 * 4);
  CHECK_THROWS_AS(universe.box(27, box), Error);
  CHECK_THROWS_AS(universe.box(-1, box), Error);
  box.pop_back();
  CHECK_THROWS_AS(universe.box(0, box), Error);
}

TEST_CASE("universes of another h have the same size in Mpc") {
  // The walk by hand, with the voxel of 4 Mpc/h at h = 0.7 given in Mpc/h at h = 0.77.
  constexpr std::int64_t n = 16;
  const UniverseOptions options{
      .extent = n, .voxel_mpc_h = 4, .particles_per_voxel_axis = 1, .seed = 2};
  const Cosmology high{.omega_m = 0.28, .h = 0.77};
  const Universe universe = generate_universe(options, high, 5);
  const Fft3d fft(n);
  SpectralGrid density(n);
  fill_density_modes(density, fft, PowerSpectrum(high), 4 * 0.77 / 0.70, 2, 5);
  SpectralGrid psi[3] = {SpectralGrid(n), SpectralGrid(n), SpectralGrid(n)};
  std::vector<std::int16_t> counts(n * n * n * 4);
  for (int axis = 0; axis < 3; ++axis) displacement(density, fft, axis, {0, 0, 0}, psi[axis]);
  std::array<double, 4> growths{};
  for (std::size_t c = 0; c < 4; ++c) growths[c] = growth_factor(0.28, kRedshifts[c]);
  count_particles(psi, {0, 0, 0}, growths, counts);
  // The two voxel sizes may differ by a rounding: no particle of this seed sits that near a face.
  CHECK(copy_counts(universe) == counts);
}

TEST_CASE("a wider spread moves the parameters, not the targets") {
  UniverseOptions options{.extent = 8, .seed = 3};
  const Universe a = generate_universe(options, 1);
  options.parameter_spread = 0.3;
  const Universe b = generate_universe(options, 1);
  const Cosmology centre;
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(a.targets()[i] ==
          doctest::Approx(b.targets()[i]).epsilon(1e-5));  // float, after division
  CHECK(b.cosmology().sigma_8 - centre.sigma_8 ==
        doctest::Approx(3 * (a.cosmology().sigma_8 - centre.sigma_8)));
  CHECK(b.cosmology().h - centre.h == doctest::Approx(3 * (a.cosmology().h - centre.h)));
}

TEST_CASE("the targets can be seen in the voxels") {
  // The variance of log(1 + count) across small universes must rank them by sigma_8.
  constexpr int kUniverses = 40;
  const UniverseOptions options{.extent = 24, .voxel_mpc_h = 4, .seed = 13};
  double sx = 0, sy = 0, sxx = 0, syy = 0, sxy = 0;
  for (int u = 0; u < kUniverses; ++u) {
    const Universe universe = generate_universe(options, u);
    double sum = 0, square = 0;
    for (std::size_t i = 0; i < universe.counts().size(); i += 4) {
      const double x = std::log1p(universe.counts()[i]);
      sum += x;
      square += x * x;
    }
    const double voxels = static_cast<double>(universe.counts().size()) / 4;
    const double x = square / voxels - sum / voxels * sum / voxels;
    const double y = universe.targets()[1];
    sx += x, sy += y, sxx += x * x, syy += y * y, sxy += x * y;
  }
  const double n = kUniverses;
  const double correlation =
      (sxy - sx * sy / n) / std::sqrt((sxx - sx * sx / n) * (syy - sy * sy / n));
  // Without a connection the scatter is 1/sqrt(40) = 0.16.
  CHECK(correlation > 0.6);
}

TEST_CASE("progress rises to 1, and invalid options are refused") {
  std::vector<double> seen;
  (void)generate_universe({.extent = 8, .particles_per_voxel_axis = 2}, 0,
                          [&](double fraction) { seen.push_back(fraction); });
  REQUIRE(seen.size() == 9);
  for (std::size_t i = 1; i < seen.size(); ++i) CHECK(seen[i] > seen[i - 1]);
  CHECK(seen.back() == 1);

  CHECK_THROWS_AS(generate_universe({.extent = 3}, 0), UsageError);
  CHECK_THROWS_AS(generate_universe({.extent = 16, .boxes_per_axis = 3}, 0), UsageError);
  CHECK_THROWS_AS(generate_universe({.extent = 16, .boxes_per_axis = 0}, 0), UsageError);
  CHECK_THROWS_AS(generate_universe({.extent = 16, .voxel_mpc_h = 0}, 0), UsageError);
  CHECK_THROWS_AS(generate_universe({.extent = 16, .particles_per_voxel_axis = 0}, 0), UsageError);
  for (const double spread : {0.0, -0.1, 0.6})
    CHECK_THROWS_AS(generate_universe({.extent = 16, .parameter_spread = spread}, 0), UsageError);
  CHECK_THROWS_AS(generate_universe({.extent = 16}, -1), Error);
  const UniverseOptions published{.extent = 512, .particles_per_voxel_axis = 1};
  CHECK(published.peak_bytes() < 6'000'000'000);
}
