// SPDX-License-Identifier: Apache-2.0
// The split of a sparse gradient's work over threads, and its cost compared with dense kernels.
// Pure arithmetic on shapes: equal on every machine and in every run.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/nn/kernels/isa.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {
namespace sparse {

constexpr double kBlock = 16;  // output channels of a block

/// The work of a gradient under max pooling. Costs are in multiply-adds of vectors.
struct Work {
  std::int64_t in_blocks = 1;   ///< vectors of input channels
  std::int64_t out_blocks = 1;  ///< blocks of 16 output channels
  std::int64_t units = 1;       ///< tiles, or planes of tiles, that threads can share
  double voxels = 1;            ///< pooled voxels of a unit
  double voxels_under = 1;      ///< voxels that the tiles of a unit copy
  double taps = 1;              ///< taps of the kernel
  double pool_taps = 1;
  double multiply_adds = 1;  ///< cost of one, with its loads and stores
};

/// in_groups x out_groups x slabs parts that run at once; each has a range of input vectors, of
/// output blocks and of units.
struct Split {
  std::int64_t in_groups = 1, out_groups = 1, slabs = 1;
  std::int64_t parts() const { return in_groups * out_groups * slabs; }
};

inline std::int64_t share(std::int64_t all, std::int64_t parts) {
  return (all + parts - 1) / parts;
}

/// The cost of the largest part. Finding a winner costs two multiply-adds, copying a vector three.
inline double cost_of(const Work& w, const Split& s) {
  constexpr double kFind = 2, kCopy = 3;
  const auto units = static_cast<double>(share(w.units, s.slabs));
  const auto in = static_cast<double>(share(w.in_blocks, s.in_groups));
  const double out = kBlock * static_cast<double>(share(w.out_blocks, s.out_groups));
  return units * (w.voxels * kFind * out +
                  in * (kCopy * w.voxels_under + w.voxels * out * w.taps * w.multiply_adds));
}

/// The cost of dense kernels on one thread, which also process the zeros that pooling leaves.
inline double dense_cost_of(const Work& w) {
  return w.pool_taps * w.taps * w.voxels *
         static_cast<double>(w.units * w.in_blocks * w.out_blocks) * kBlock;
}

/// The split of least cost, among equal ones the one with the fewest slabs, whose sums take memory.
inline Split best_split(const Work& w, std::int64_t threads, std::int64_t most_slabs,
                        std::int64_t most_out_groups) {
  Split best;
  for (std::int64_t slabs = 1; slabs <= std::min(threads, most_slabs); ++slabs)
    for (std::int64_t out = 1; slabs * out <= threads && out <= most_out_groups; ++out)
      for (std::int64_t in = 1; slabs * out * in <= threads && in <= w.in_blocks; ++in)
        if (const Split s{in, out, slabs}; cost_of(w, s) < 0.999 * cost_of(w, best)) best = s;
  return best;
}

}  // namespace sparse
}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
