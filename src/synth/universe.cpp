// SPDX-License-Identifier: Apache-2.0
// Computes voxel counts from parameters, and cuts boxes.
#include "src/synth/universe.hpp"

#include <algorithm>
#include <cmath>
#include <new>

#include "error.hpp"
#include "src/synth/fft3d.hpp"
#include "src/synth/gaussian_field.hpp"
#include "src/synth/growth.hpp"
#include "src/synth/power_spectrum.hpp"
#include "src/synth/zeldovich.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kRedshiftChannels = std::ssize(kRedshifts);

// The offset of sub-lattice `i` of `per_axis` from the voxel's centre, in voxels.
double lattice_shift(std::int64_t i, std::int64_t per_axis) {
  return (static_cast<double>(i) + 0.5) / static_cast<double>(per_axis) - 0.5;
}

std::vector<std::int16_t> zero_counts(const UniverseOptions& options) {
  const std::int64_t n = options.extent;
  try {
    return std::vector<std::int16_t>(static_cast<std::size_t>(n * n * n * kRedshiftChannels));
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format("out of memory for the counts of a universe of {}^3 ({} bytes)", n,
                            n * n * n * kRedshiftChannels * 2),
                "make a smaller universe or use a machine with more memory");
  }
}

}  // namespace

std::int64_t UniverseOptions::peak_bytes() const {
  const std::int64_t grid = extent * extent * (extent / 2 + 1) * 16;
  return 4 * grid + extent * extent * extent * kRedshiftChannels * 2;
}

void check(const UniverseOptions& o) {
  if (o.extent < 4 || o.extent > 4096)
    throw UsageError(fmt::format("a universe of {} voxels per axis is not supported", o.extent),
                     "use 4 to 4096");
  if (o.boxes_per_axis < 1 || o.extent % o.boxes_per_axis != 0)
    throw UsageError(
        fmt::format("a universe of {} voxels per axis cannot be cut into {} equal boxes per axis",
                    o.extent, o.boxes_per_axis),
        "the number of boxes per axis must divide the extent");
  if (!(o.voxel_mpc_h > 0) || !std::isfinite(o.voxel_mpc_h))
    throw UsageError(fmt::format("voxel size {:g} Mpc/h is not positive", o.voxel_mpc_h),
                     "give the voxel's edge in Mpc/h, such as 1");
  if (o.particles_per_voxel_axis < 1 || o.particles_per_voxel_axis > 8)
    throw UsageError(
        fmt::format("{} particles per voxel axis are not supported", o.particles_per_voxel_axis),
        "use 1 to 8; the mean count is the cube of it");
  if (!(o.parameter_spread > 0 && o.parameter_spread <= 0.5))
    throw UsageError(fmt::format("a parameter spread of {:g} is not supported", o.parameter_spread),
                     "use more than 0, up to 0.5; the published set has 0.1");
}

void Universe::box(std::int64_t index, std::span<std::int16_t> dst) const {
  const std::int64_t b = options_.boxes_per_axis, e = options_.box_extent(), n = options_.extent;
  require(index >= 0 && index < options_.boxes(),
          text("box {} of a universe of {} boxes", index, options_.boxes()));
  require(std::ssize(dst) == options_.box_elements(),
          text("a box has {} values, not {}", options_.box_elements(), dst.size()));
  const std::int64_t d0 = index / (b * b) * e, h0 = index / b % b * e, w0 = index % b * e;
  const std::int64_t row = e * kRedshiftChannels;
  for (std::int64_t d = 0; d < e; ++d)
    for (std::int64_t h = 0; h < e; ++h)
      std::copy_n(counts_.data() + (((d0 + d) * n + h0 + h) * n + w0) * kRedshiftChannels, row,
                  dst.data() + (d * e + h) * row);
}

Universe generate_universe(const UniverseOptions& options, std::int64_t universe,
                           const std::function<void(double)>& progress) {
  check(options);
  return generate_universe(options,
                           draw_cosmology(options.seed, universe, options.parameter_spread),
                           universe, progress);
}

Universe generate_universe(const UniverseOptions& options, const Cosmology& cosmology,
                           std::int64_t universe, const std::function<void(double)>& progress) {
  check(options);
  Universe result;
  result.options_ = options;
  result.cosmology_ = cosmology;
  result.counts_ = zero_counts(options);

  const std::int64_t n = options.extent, per_axis = options.particles_per_voxel_axis;
  const std::int64_t lattices = per_axis * per_axis * per_axis;
  std::int64_t done = 0;
  const auto report = [&] {
    ++done;
    if (progress) progress(static_cast<double>(done) / static_cast<double>(1 + lattices));
  };

  const Fft3d fft(n);
  SpectralGrid density(n);
  fill_density_modes(density, fft, PowerSpectrum(cosmology),
                     options.voxel_mpc_h * cosmology.h / Cosmology{}.h, options.seed, universe);
  report();
  std::array<double, kRedshifts.size()> growths{};
  for (std::size_t c = 0; c < growths.size(); ++c)
    growths[c] = growth_factor(cosmology.omega_m, kRedshifts[c]);
  SpectralGrid psi[3] = {SpectralGrid(n), SpectralGrid(n), SpectralGrid(n)};
  // The lattice of all particles is finer than the grid. Each sub-lattice takes its displacements
  // from the grid's own waves, evaluated at shifted points, so memory does not grow with the
  // particles.
  for (std::int64_t lattice = 0; lattice < lattices; ++lattice) {
    const double shift[3] = {lattice_shift(lattice / (per_axis * per_axis), per_axis),
                             lattice_shift(lattice / per_axis % per_axis, per_axis),
                             lattice_shift(lattice % per_axis, per_axis)};
    for (int axis = 0; axis < 3; ++axis) displacement(density, fft, axis, shift, psi[axis]);
    count_particles(psi, shift, growths, result.counts_);
    report();
  }
  return result;
}

}  // namespace halomesh
