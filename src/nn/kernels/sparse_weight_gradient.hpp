// SPDX-License-Identifier: Apache-2.0
// The weight and bias gradient of a convolution of many channels whose output is max pooled over
// disjoint windows, straight from the pooled gradient and the argmax.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "shape.hpp"
#include "src/nn/kernels/isa.hpp"
#include "src/nn/kernels/poll.hpp"
#include "src/nn/kernels/pooled_weight_gradient.hpp"
#include "src/nn/kernels/sparse_split.hpp"
#include "src/nn/kernels/sparse_tile.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {

/// As PooledWeightGradient, for whole vectors of input channels and kernels of 2x2x2 or 3x3x3. One
/// vector of a small tile of the source at a time is copied to the first-level cache, where the sum
/// of an output channel over the tile stays in registers for all taps of the kernel (3x3x3: of one
/// plane).
///
/// Threads share the tiles and the channels. Sums are fp32: over a tile, then over all tiles of a
/// thread, then over threads. Their order depends only on the geometry, the sequence of add() and
/// the number of threads.
class SparseWeightGradient {
 public:
  using Geometry = PooledWeightGradient::Geometry;
  template <class T>
  using Source = PooledWeightGradient::Source<T>;
  template <class T>
  using Pooled = PooledWeightGradient::Pooled<T>;
  using Argmax = PooledWeightGradient::Argmax;

  static bool supports(const Geometry& geometry);
  /// The work for `extents` in pooled voxels.
  static sparse::Work work_of(const Geometry& geometry, const Spatial& extents);
  /// The split of that work over at most `threads` threads.
  static sparse::Split split_of(const Geometry& geometry, const Spatial& extents, int threads);

  /// Prepares for boxes of about `extents` pooled voxels, on at most `threads` threads. Throws
  /// Error unless the geometry is supported.
  SparseWeightGradient(const Geometry& geometry, const Spatial& extents, int threads);
  /// Prepares for add_cells() with cells of `cell` pooled voxels, which divide `extents`.
  SparseWeightGradient(const Geometry& geometry, const Spatial& extents, int threads,
                       const Spatial& cell);

  /// See PooledWeightGradient::add().
  template <class S, class T>
  void add(const Source<S>& src, const Spatial& extents, const Pooled<T>& diff,
           const Argmax& argmax, float slope, bool first, Poll poll = {});

  /// Writes the sums: weight in the order out,in,kd,kh,kw, and one bias per output channel.
  void store(float* diff_weight, float* diff_bias) const;

  /// See PooledWeightGradient::add_cells() and store_exact().
  template <class S, class T>
  void add_cells(const Source<S>& src, const Spatial& extents, const Pooled<T>& diff,
                 const Argmax& argmax, float slope, Poll poll = {});
  void store_exact(const ExactView& diff_weight, const ExactView& diff_bias);

 private:
  // The buffers of one part of the work; parts of a slab share its sums of weights.
  struct Part {
    AlignedBuffer<float> tile, bias;
    AlignedBuffer<double> bias_sum;
    ExactSums bias_cells;
    AlignedBuffer<sparse::Winners> winners;
  };
  // The work of a part: vectors of input channels and blocks of output channels of a slab.
  struct Share {
    std::int64_t slab;
    bool has_bias;  // whether it sums the bias of these output channels
    Range in, blocks, out;
  };
  // The tiles of a box that begins at `origin`.
  struct TiledBox {
    const sparse::Tiling& tiling;
    Spatial origin{};
    sparse::Tile at(std::int64_t number) const {
      sparse::Tile tile = tiling.at(number);
      for (std::size_t a = 0; a < 3; ++a) tile.first[a] += origin[a];
      return tile;
    }
  };
  void allocate(std::int64_t tiles);
  Share share_of(std::int64_t part) const;
  template <class S, class T>
  void add_tiles(const Source<S>& src, const TiledBox& box, const Range& tiles,
                 const sparse::PooledDiff<T>& diff, const Share& share, Part& part, Poll& poll);
  std::int64_t taps() const { return sparse::volume(geometry_.kernel); }
  std::int64_t place_of(std::int64_t in_block, std::int64_t channel) const {
    return (in_block * geometry_.dst_channels + channel) * taps() * sparse::kVector;
  }
  template <class S, class T>
  void add_part(const Source<S>& src, const sparse::Tiling& tiling,
                const sparse::PooledDiff<T>& diff, bool first, std::int64_t number, Poll& poll);
  template <class S>
  void copy_tile(const Source<S>& src, const sparse::Tile& tile, std::int64_t in_block,
                 float* to) const;
  void sum_tile(const sparse::Winners* first, std::int64_t voxels, const Range& out,
                const float* tile, float* sums) const;

  Geometry geometry_;
  std::int64_t in_blocks_ = 0, out_blocks_ = 0;
  std::int64_t tiles_at_once_ = 1;  // tiles whose winners are found before the sums are updated
  sparse::TileLayout layout_;
  sparse::Split split_;
  std::vector<Part> parts_;
  // For each slab of tiles: vector of input channels, output channel, tap, input channel.
  std::vector<AlignedBuffer<float>> sums_;
  Spatial cell_{};
  std::vector<ExactSums> cells_;  // per slab: the sums of all cells, in that order
};

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
