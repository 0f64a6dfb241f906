// SPDX-License-Identifier: Apache-2.0
// The input gradient of a convolution of many channels whose output is max pooled over disjoint
// windows, straight from the pooled gradient and the argmax. Owns the packed weights.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/window.hpp"
#include "shape.hpp"
#include "src/nn/kernels/isa.hpp"
#include "src/nn/kernels/poll.hpp"
#include "src/nn/kernels/pooled_weight_gradient.hpp"
#include "src/nn/kernels/sparse_split.hpp"
#include "src/nn/kernels/sparse_target.hpp"
#include "src/nn/kernels/sparse_tile.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {

/// Un-pooling a gradient leaves one element per pooling window that is not zero: for the pooled
/// voxel p and output channel o it is the convolution's output voxel q = pool * p + largest(p, o),
/// and with g = diff(p, o)
///   diff_src(q + k, i) += g * weight(o, i, k) for all taps k.
/// For stride and dilation 1, whole vectors of input channels and kernels of 2x2x2 or 3x3x3. One
/// vector of a small tile of diff_src at a time is in the first-level cache, where weights of an
/// output channel, held in registers (3x3x3: one plane at a time), are added at all pooled voxels
/// of the tile.
///
/// Threads share planes and input channels. Sums are fp32 even for bf16 gradients, which are
/// rounded once: incomplete voxels wait in fp32 at the edges of tiles. Weights are rounded to bf16
/// like those of the forward pass. The order of sums depends only on the geometry, the sequence of
/// calls and the number of threads, not on the type.
class SparseDataGradient {
 public:
  using Geometry = PooledWeightGradient::Geometry;
  template <class T>
  using Pooled = PooledWeightGradient::Pooled<T>;
  using Argmax = PooledWeightGradient::Argmax;

  template <class S>
  using Target = sparse::Target<S>;

  static bool supports(const Geometry& geometry);
  /// The work for `extents` in pooled voxels.
  static sparse::Work work_of(const Geometry& geometry, const Spatial& extents);

  /// The split of that work over at most `threads` threads.
  static sparse::Split split_of(const Geometry& geometry, const Spatial& extents, int threads);

  /// Prepares for boxes of about `extents` pooled voxels, on at most `threads` threads. With `type`
  /// kBfloat16, blocks have at most `rows` x `pixels` in a plane. Throws Error unless the geometry
  /// is supported.
  SparseDataGradient(const Geometry& geometry, const Spatial& extents, int threads,
                     DataType type = DataType::kFloat32, std::int64_t rows = 0,
                     std::int64_t pixels = 0);

  /// Packs weights in the order out,in,kd,kh,kw.
  void load_weights(const float* weight);

  /// Writes the contributions of the planes `planes` of a box of `extents` pooled voxels: adds
  /// where earlier planes, which must be done first, have written, otherwise overwrites. After all
  /// planes, every voxel of the block under the windows of the box is written. Polls often.
  /// Instantiated for float and Bfloat16; S is the type given to the constructor. Local; allocates
  /// nothing.
  template <class S, class T>
  void run(const Target<S>& target, const Spatial& extents, Range planes, const Pooled<T>& diff,
           const Argmax& argmax, float slope, Poll poll = {});

  /// As run(), for all planes of a box whose first pooled voxel is number `first` of the whole
  /// tensor along each axis, in fp32. An element of the target has the same bits in any box that
  /// has all windows which reach it, on any number of threads.
  void run_in_order(const Target<float>& target, const Spatial& extents, const Spatial& first,
                    const Pooled<float>& diff, const Argmax& argmax, float slope, Poll poll = {});

 private:
  struct Part {
    AlignedBuffer<float> tile;
    AlignedBuffer<sparse::Winners> winners;
  };
  struct PlaneOfSlab {
    std::int64_t slab = 0, slabs = 1;
    std::int64_t plane = 0, planes = 1;  // planes of the box
    bool is_first = false, is_last = false;
  };
  std::int64_t taps() const { return sparse::volume(geometry_.kernel); }
  sparse::SumsInPlace sums_of(const Target<float>& target, const PlaneOfSlab& at);
  sparse::RoundedSums sums_of(const Target<Bfloat16>& target, const PlaneOfSlab& at);
  template <class Sums, class T>
  void run_plane(const Sums& sums, const sparse::Tiling& tiling, std::int64_t plane, Range in,
                 const sparse::PooledDiff<T>& diff, Part& part, Poll& poll) const;
  void add_tile(Part& part, std::int64_t voxels, std::int64_t in_block) const;

  Geometry geometry_;
  std::int64_t in_blocks_ = 0, out_blocks_ = 0;
  sparse::TileWindows windows_;
  sparse::Split split_;
  std::vector<Part> parts_;  // one per thread
  DataType type_ = DataType::kFloat32;
  std::vector<sparse::Edges> edges_;  // one per slab of bf16 gradients
  AlignedBuffer<float> weights_;  // vector of input channels, output channel, tap, input channel
};

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
