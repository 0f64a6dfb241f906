// SPDX-License-Identifier: Apache-2.0
// Tiles of pooled voxels for the sparse gradients: each window's gradient and the place that it
// goes to, the tensor under the tile in a small buffer, and the innermost loops over both.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "partition/window.hpp"
#include "shape.hpp"
#include "src/nn/data_type.hpp"
#include "src/nn/kernels/argmax.hpp"
#include "src/nn/kernels/isa.hpp"
#include "src/nn/kernels/lanes.hpp"
#include "src/nn/kernels/pooled_weight_gradient.hpp"
#include "src/nn/kernels/pooled_weight_tile.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {
namespace sparse {

using pooled_weight::ceil_to;
using pooled_weight::kVector;
using pooled_weight::load;
using pooled_weight::store;
using pooled_weight::unroll;
using pooled_weight::Vector;

inline std::int64_t volume(const Spatial& n) { return n[0] * n[1] * n[2]; }

/// Whether the sparse kernels can compute the gradients, which takes whole vectors of input
/// channels and kernels of 2x2x2 or 3x3x3.
inline bool are_kernels_for(const PooledWeightGradient::Geometry& g) {
  return g.src_channels > 0 && g.dst_channels > 0 && g.src_channels % kVector == 0 &&
         (g.kernel == Spatial{2, 2, 2} || g.kernel == Spatial{3, 3, 3}) &&
         std::min({g.pool[0], g.pool[1], g.pool[2]}) > 0 &&
         volume(g.pool) <= PooledWeightGradient::kMaxPoolTaps;
}

/// The share of `all` that part number `part` of `parts` has.
inline Range range_of(std::int64_t all, std::int64_t parts, std::int64_t part) {
  return {all * part / parts, all * (part + 1) / parts};
}

/// A box of pooled voxels.
struct Tile {
  Spatial first{}, extents{};
};

/// Cuts pooled extents into tiles, in d,h,w order. The first one along each axis is shorter by
/// `phase`, where extents begin within a tile.
struct Tiling {
  Spatial extents{}, tile{1, 1, 1}, phase{};
  Spatial counts() const {
    Spatial n{};
    for (std::size_t a = 0; a < 3; ++a)
      n[a] = extents[a] <= 0 ? 0 : (phase[a] + extents[a] + tile[a] - 1) / tile[a];
    return n;
  }
  std::int64_t count() const { return volume(counts()); }
  Tile at(std::int64_t i) const {
    const Spatial n = counts();
    Tile t{{i / (n[1] * n[2]), i / n[2] % n[1], i % n[2]}, {}};
    for (std::size_t a = 0; a < 3; ++a) {
      const std::int64_t lo = t.first[a] * tile[a] - phase[a];
      t.first[a] = std::max<std::int64_t>(lo, 0);
      t.extents[a] = std::min(lo + tile[a], extents[a]) - t.first[a];
    }
    return t;
  }
};

/// The place in the buffer of one vector of channels of each voxel under a tile, in floats.
class TileLayout {
 public:
  TileLayout() = default;
  TileLayout(const Spatial& kernel, const Spatial& pool, const Spatial& tile)
      : kernel_(kernel), pool_(pool) {
    const Spatial n = under(tile);
    row_step = n[2] * kVector;
    plane_step = n[1] * row_step;
    size = n[0] * plane_step;
    for (std::int64_t tap = 0; tap < volume(pool); ++tap) {
      const std::int64_t offset = tap / (pool[1] * pool[2]) * plane_step +
                                  tap / pool[2] % pool[1] * row_step + tap % pool[2] * kVector;
      tap_offset[static_cast<std::size_t>(tap)] = static_cast<std::int32_t>(offset);
      tap_offset[static_cast<std::size_t>(tap | kSlopeBit)] = static_cast<std::int32_t>(offset);
    }
  }
  /// The extents in voxels under pooled `extents`.
  Spatial under(const Spatial& extents) const {
    Spatial n{};
    for (std::size_t a = 0; a < 3; ++a) n[a] = pool_[a] * extents[a] + kernel_[a] - 1;
    return n;
  }
  std::int32_t window(std::int64_t d, std::int64_t h, std::int64_t w) const {
    return static_cast<std::int32_t>(d * pool_[0] * plane_step + h * pool_[1] * row_step +
                                     w * pool_[2] * kVector);
  }

  std::int64_t row_step = 0, plane_step = 0, size = 0;
  std::array<std::int32_t, 256> tap_offset{};  // by argmax

 private:
  Spatial kernel_{}, pool_{};
};

/// kLanes output channels at one pooled voxel: the gradient before the activation, and the place of
/// the convolution's window that it goes to.
struct alignas(64) Winners {
  std::array<std::int32_t, kLanes> offset;
  std::array<float, kLanes> diff;
};

/// The gradient of pooled values behind an activation, and where each of them came from.
template <class T>
struct PooledDiff {
  const PooledWeightGradient::Pooled<T>& values;
  const PooledWeightGradient::Argmax& argmax;
  float slope;
};

/// Writes the winners of the blocks `blocks` of kLanes channels, one block after the other; adds
/// the gradients to sums[channel] unless it is null.
template <class T>
void find_winners(const TileLayout& layout, const Tile& tile, const Range& blocks,
                  std::int64_t channels, const PooledDiff<T>& diff, Winners* winners, float* sums) {
  const std::int64_t voxels = volume(tile.extents);
  std::int64_t voxel = 0;
  for (std::int64_t d = 0; d < tile.extents[0]; ++d)
    for (std::int64_t h = 0; h < tile.extents[1]; ++h)
      for (std::int64_t w = 0; w < tile.extents[2]; ++w, ++voxel) {
        const auto [fd, fh, fw] = tile.first;
        const T* const values = diff.values.at(fd + d, fh + h, fw + w);
        const std::uint8_t* const largest = diff.argmax.at(fd + d, fh + h, fw + w);
        const std::int32_t window = layout.window(d, h, w);
        for (std::int64_t b = 0; b < blocks.extent(); ++b) {
          const std::int64_t c = (blocks.lo + b) * kLanes, count = std::min(kLanes, channels - c);
          Winners& to = winners[b * voxels + voxel];
          ByteLanes bytes;
          halomesh::load(largest + c, count, bytes);
          // The taps are read from memory, because compilers extract the elements of a vector
          // register one by one.
          std::array<std::uint8_t, kLanes> rest{};
          const std::uint8_t* taps = largest + c;
          if (count < kLanes) {
            halomesh::store(bytes, kLanes, rest.data());
            taps = rest.data();
          }
          for (std::size_t i = 0; i < kLanes; ++i)
            to.offset[i] = window + layout.tap_offset[taps[i]];
          const IntLanes sloped = (lanes_of(bytes) & std::int32_t{kSlopeBit}) != 0;
          const FloatLanes value = load_values(values + c, count);
          const FloatLanes scaled = sloped ? value * diff.slope : value;
          halomesh::store(scaled, kLanes, to.diff.data());
          if (sums != nullptr) {
            const FloatLanes sum = load_values(sums + c, kLanes) + scaled;
            halomesh::store(sum, kLanes, sums + c);
          }
        }
      }
}

/// Adds the sum over `count` winners of one channel (lane `lane`) of the gradient times the vectors
/// of its window to sums[tap].
template <std::int64_t kD, std::int64_t kH, std::int64_t kW>
void sum_windows(const Winners* winners, std::int64_t count, std::size_t lane, const float* tile,
                 std::int64_t row_step, std::int64_t plane_step, float* sums) {
  Vector sum[kD][kH][kW] = {};
  for (std::int64_t v = 0; v < count; ++v) {
    const float* const at = tile + winners[v].offset[lane];
    const float scale = winners[v].diff[lane];
    unroll<kD>([&](auto d) __attribute__((always_inline)) {
      unroll<kH>([&](auto h) __attribute__((always_inline)) {
        unroll<kW>([&](auto w) __attribute__((always_inline)) {
          sum[d][h][w] += scale * load(at + d * plane_step + h * row_step + w * kVector);
        });
      });
    });
  }
  unroll<kD * kH * kW>([&](auto i) __attribute__((always_inline)) {
    const Vector& from = sum[i / (kH * kW)][i / kW % kH][i % kW];
    store(load(sums + i * kVector) + from, sums + i * kVector);
  });
}

/// Adds gradient times weights[tap] to the vectors of the windows of `count` winners of one
/// channel.
template <std::int64_t kD, std::int64_t kH, std::int64_t kW>
void add_windows(const Winners* winners, std::int64_t count, std::size_t lane, const float* weights,
                 float* tile, std::int64_t row_step, std::int64_t plane_step) {
  Vector weight[kD][kH][kW];
  unroll<kD * kH * kW>([&](auto i) __attribute__((always_inline)) {
    weight[i / (kH * kW)][i / kW % kH][i % kW] = load(weights + i * kVector);
  });
  for (std::int64_t v = 0; v < count; ++v) {
    float* const at = tile + winners[v].offset[lane];
    const float scale = winners[v].diff[lane];
    unroll<kD>([&](auto d) __attribute__((always_inline)) {
      unroll<kH>([&](auto h) __attribute__((always_inline)) {
        float* const row = at + d * plane_step + h * row_step;
        Vector value[kW];
        unroll<kW>([&](auto w) __attribute__((always_inline)) {
          value[w] = load(row + w * kVector) + scale * weight[d][h][w];
        });
        unroll<kW>([&](auto w)
                       __attribute__((always_inline)) { store(value[w], row + w * kVector); });
      });
    });
  }
}

}  // namespace sparse
}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
