// SPDX-License-Identifier: Apache-2.0
// The Zel'dovich approximation: displacements of particles from a lattice, counted into voxels.
#pragma once

#include <cstdint>
#include <span>

#include "src/synth/fft3d.hpp"

namespace halomesh {

/// One displacement component of the particles of one sub-lattice, at linear growth 1.
///
/// psi(q) = sum_k i k/k^2 delta_k exp(i k q) (so that delta = -div psi; Zel'dovich 1970, A&A 5,
/// 84), in voxels, at q = voxel centre + shift. `axis` is 0, 1, 2 for d, h, w; `shift` is in
/// voxels. The modes of the Nyquist planes are left out: the grid does not determine the sign of
/// their k, which the derivative and the shift need. Writes reals into `psi` (same extent as
/// `density`, which holds modes and is only read).
void displacement(const SpectralGrid& density, const Fft3d& fft, int axis, const double (&shift)[3],
                  SpectralGrid& psi);

/// Moves the n^3 particles of one sub-lattice to q + growths[c] psi(q), wraps them periodically,
/// and adds 1 to channel c of the voxel that each falls in (nearest grid point), for every c.
///
/// `counts` is n x n x n x growths.size() in the order d, h, w, channel, and is added to. Particles
/// are never lost: when the count of a voxel would exceed int16, throws Error naming the voxel, and
/// the counts are invalid. Integer additions commute, so the result does not depend on the number
/// of threads.
void count_particles(const SpectralGrid (&psi)[3], const double (&shift)[3],
                     std::span<const double> growths, std::span<std::int16_t> counts);

}  // namespace halomesh
