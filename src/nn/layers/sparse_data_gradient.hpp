// SPDX-License-Identifier: Apache-2.0
// The input gradient of a convolution of many channels whose output is max pooled over disjoint
// windows, straight from the pooled gradient and the argmax. Owns the packed weights.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/window.hpp"
#include "shape.hpp"
#include "src/nn/layers/isa.hpp"
#include "src/nn/layers/pooled_weight_gradient.hpp"
#include "src/nn/layers/sparse_split.hpp"
#include "src/nn/layers/sparse_tile.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {
inline namespace HALOMESH_ISA {

/// Un-pooling a gradient leaves one element of each pooling window that is not zero: of the pooled
/// voxel p and output channel o it is the convolution's output voxel q = pool * p + largest(p, o),
/// and with g = diff(p, o)
///   diff_src(q + k, i) += g * weight(o, i, k) for all taps k.
/// For stride and dilation 1, whole vectors of input channels and kernels of 2x2x2 or 3x3x3: one
/// vector of a small tile of diff_src at a time is in the first-level cache, where the weights of
/// an output channel (of a plane) in registers are added at all pooled voxels of the tile.
///
/// Threads share planes and input channels. Sums are fp32, also those of bf16 gradients, which are
/// rounded once: the planes that are not complete wait in a ring. For bf16 threads share only input
/// channels, and weights are rounded to bf16 like those of the forward pass. The order
/// of sums depends only on the
/// geometry, the sequence of calls and the number of threads.
class SparseDataGradient {
 public:
  using Geometry = PooledWeightGradient::Geometry;
  template <class T>
  using Pooled = PooledWeightGradient::Pooled<T>;
  using Argmax = PooledWeightGradient::Argmax;

  /// A block of one sample: (d, h, w, i) is at data[d * step[0] + h * step[1] + w * step[2] + i].
  /// `corner` is the place in the block of tap 0 of the convolution's window for tap 0 of the
  /// pooling window of the first pooled voxel; it may be negative. What lies outside the block is
  /// not written.
  template <class S>
  struct Target {
    S* data = nullptr;
    Spatial step{}, extents{}, corner{};
  };

  static bool supports(const Geometry& geometry);
  /// The work of pooled `extents`.
  static sparse::Work work_of(const Geometry& geometry, const Spatial& extents);

  /// For boxes of about `extents` pooled voxels, on at most `threads` threads. With `type`
  /// kBfloat16, blocks have at most `rows` x `pixels` in a plane. Throws Error unless the geometry
  /// is supported.
  SparseDataGradient(const Geometry& geometry, const Spatial& extents, int threads,
                     DataType type = DataType::kFloat32, std::int64_t rows = 0,
                     std::int64_t pixels = 0);

  /// Packs weights in the order out,in,kd,kh,kw.
  void load_weights(const float* weight);

  /// Writes what the planes `planes` of a box of `extents` pooled voxels give: adds where planes
  /// before them have written, which must be done first, otherwise overwrites. After all planes,
  /// every voxel of the block under the windows of the box is written. Instantiated for float and
  /// Bfloat16; S is the type given to the constructor. Local; allocates nothing.
  template <class S, class T>
  void run(const Target<S>& target, const Spatial& extents, Range planes, const Pooled<T>& diff,
           const Argmax& argmax, float slope);

 private:
  // fp32 memory of a block, or of as many planes of it as the ring has.
  struct Sums {
    float* data = nullptr;
    std::int64_t planes = 0;  // plane d of the block is plane d % planes of the memory
    Spatial step{}, extents{}, corner{};
  };
  struct Part {
    AlignedBuffer<float> tile;
    AlignedBuffer<sparse::Winners> winners;
  };
  // Voxels under a tile, counted from its first, that nothing was added to before.
  struct Unwritten {
    Range planes;
    std::int64_t row = 0, pixel = 0;  // from these on
    bool has(std::int64_t d, std::int64_t h, std::int64_t w) const {
      return d >= planes.lo && d < planes.hi && h >= row && w >= pixel;
    }
  };
  std::int64_t taps() const { return sparse::volume(geometry_.kernel); }
  template <class T>
  void run_plane(const Sums& target, const Spatial& extents, std::int64_t plane,
                 const Range& unwritten, Range in, const Pooled<T>& diff, const Argmax& argmax,
                 float slope, Part& part) const;
  template <bool kStore>
  void copy_tile(const Sums& target, const sparse::Tile& tile, std::int64_t in_block,
                 const Unwritten& unwritten, float* copy) const;
  template <class T>
  void run_slabs(const Sums& target, const Spatial& extents, Range planes, const Pooled<T>& diff,
                 const Argmax& argmax, float slope);
  void round_planes(const Sums& from, Range planes, Range in, const Target<Bfloat16>& to) const;
  void add_tile(Part& part, std::int64_t voxels, std::int64_t in_block) const;

  Geometry geometry_;
  std::int64_t in_blocks_ = 0, out_blocks_ = 0;
  sparse::TileLayout layout_;
  sparse::Split split_;
  std::vector<Part> parts_;
  DataType type_ = DataType::kFloat32;
  AlignedBuffer<float> ring_;     // of bf16 gradients: planes that windows of two planes write
  AlignedBuffer<float> weights_;  // vector of input channels, output channel, tap, input channel
};

}  // namespace HALOMESH_ISA
}  // namespace halomesh
