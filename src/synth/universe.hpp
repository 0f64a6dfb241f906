// SPDX-License-Identifier: Apache-2.0
// One synthetic universe: its parameters, and particle counts at four redshifts, cut into boxes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/synth/cosmology.hpp"

namespace halomesh {

/// The redshifts of the channels, in channel order: as in the published set (prepMusic_4par.sh, see
/// kParameterSpread).
inline constexpr std::array<double, 4> kRedshifts = {0.0, 0.5, 1.5, 3.0};

/// The options that all universes of a data set share. The published set is {512, 4, 1.0, 1, ...}.
struct UniverseOptions {
  std::int64_t extent = 64;         // voxels along each axis of the periodic universe
  std::int64_t boxes_per_axis = 1;  // the universe is cut into boxes_per_axis^3 equal boxes
  /// Edge of a voxel in Mpc/h for h = 0.7. As in the published set, universes have one size in Mpc,
  /// not in Mpc/h: a universe of another h has voxels of voxel_mpc_h * h / 0.7 in its own Mpc/h.
  double voxel_mpc_h = 4.0;
  std::int64_t particles_per_voxel_axis = 2;  // the mean count is its cube; published: 1
  std::uint64_t seed = 0;
  /// Half width of the parameters' ranges as a fraction of their centres; targets are scaled by it.
  double parameter_spread = kParameterSpread;

  std::int64_t boxes() const { return boxes_per_axis * boxes_per_axis * boxes_per_axis; }
  std::int64_t box_extent() const { return extent / boxes_per_axis; }
  /// int16 values of one box: box_extent^3 x 4 channels.
  std::int64_t box_elements() const {
    return box_extent() * box_extent() * box_extent() * std::ssize(kRedshifts);
  }
  /// Peak memory of generate_universe in bytes: 40 per voxel (four double grids and the counts),
  /// plus padding; the universe keeps 8 of them per voxel. 512^3: 5.4 GB.
  std::int64_t peak_bytes() const;
};

/// Throws UsageError, naming the value, for invalid options: extent < 4, boxes that do not divide
/// it, voxel size not positive, particles per voxel axis not in [1, 8], parameter spread not in (0,
/// 0.5].
void check(const UniverseOptions& options);

/// A universe's particle counts and its parameters. Owns its counts (8 bytes per voxel).
class Universe {
 public:
  const Cosmology& cosmology() const { return cosmology_; }
  /// (omega_m, sigma_8, n_s, h) scaled to [-1, 1], equal for all boxes of a universe.
  std::array<float, 4> targets() const {
    return unit_targets(cosmology_, options_.parameter_spread);
  }
  const UniverseOptions& options() const { return options_; }

  /// Copies box `index` into dst: particle counts in the order d, h, w, channel;
  /// options().box_elements() values. Boxes are numbered as in the published set: index = (i b + j)
  /// b + k for the box i along d, j along h, k along w, b = boxes_per_axis. Throws Error for a
  /// wrong index or size.
  void box(std::int64_t index, std::span<std::int16_t> dst_dhwc) const;

  /// The whole universe: extent^3 x 4 in the order d, h, w, channel.
  std::span<const std::int16_t> counts() const { return counts_; }

 private:
  friend Universe generate_universe(const UniverseOptions&, const Cosmology&, std::int64_t,
                                    const std::function<void(double)>&);
  Universe() = default;
  UniverseOptions options_;
  Cosmology cosmology_;
  std::vector<std::int16_t> counts_;
};

/// Makes universe number `universe` of the data set: parameters by draw_cosmology, a Gaussian
/// density field with their linear spectrum, its Zel'dovich displacements at each redshift, and the
/// counts. Local; a pure function of (options, universe): neither threads nor the order of calls
/// change a byte. (Another FFTW build or CPU may round differently, which rarely moves a particle
/// to the next voxel.) `progress`, if given, is called from this thread with a fraction of 1.
/// Throws UsageError as check(), Error when out of memory, `universe` is not in [0, 2^32) or a
/// voxel's count does not fit int16.
Universe generate_universe(const UniverseOptions& options, std::int64_t universe,
                           const std::function<void(double)>& progress = {});

/// As above, with given instead of drawn parameters; `universe` still selects the noise.
Universe generate_universe(const UniverseOptions& options, const Cosmology& cosmology,
                           std::int64_t universe, const std::function<void(double)>& progress = {});

}  // namespace halomesh
