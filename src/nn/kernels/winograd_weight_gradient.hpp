// SPDX-License-Identifier: Apache-2.0
// The weight gradient of a convolution of many channels by the adjoint of Winograd's minimal
// filtering.
#pragma once

#include <cstdint>
#include <vector>

#include "src/nn/kernels/isa.hpp"
#include "src/nn/kernels/poll.hpp"
#include "src/nn/kernels/winograd_convolution.hpp"
#include "src/nn/scratch.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {

/// diff_weight(o, i, k) = sum over voxels p of diff_dst(p, o) * src(p + k, i) in fp32, of tensors
/// of fp32 or bf16, for the geometries of WinogradConvolution and whole vectors of output channels.
/// As the convolution of a tile is A^T ((G g) * (B^T d)), linear in the weights g, their gradient
/// is the sum over tiles of G^T ((A diff_dst) * (B^T d)): 64 instead of 216 products per pair of
/// channels and 2x2x2 voxels (kernel 3x3x3). The sums over tiles are products of matrices, one for
/// each point: input channels x tiles x output channels; G^T is applied once, at the end.
///
/// Threads share the input channels and, where these are few, the tiles; each works in memory of
/// its own. Sums are built in blocks of tiles, which are then added up: their order depends on the
/// boxes and the number of threads.
class WinogradWeightGradient {
 public:
  using Geometry = WinogradConvolution::Geometry;
  using Source = WinogradConvolution::Source;

  static bool supports(const Geometry& geometry);
  /// See WinogradConvolution::cost().
  static double cost(const Geometry& geometry, std::int64_t windows);
  /// Whether `windows` windows that hold `voxels` voxels cost less than direct sums; see
  /// WinogradConvolution::pays().
  static bool pays(const Geometry& geometry, std::int64_t windows, std::int64_t voxels,
                   double at_once = 1);

  /// Throws Error unless the geometry is supported. Sums are in scratch: they begin, and are
  /// stored, within a call of the layer.
  WinogradWeightGradient(const Geometry& geometry, bool with_bias, int threads,
                         Scratch scratch = {});

  /// Adds the gradient of the box `dst_box` of sample n of `diff_dst`, which is not empty;
  /// src.corner is the voxel that the first voxel of the box reads first. `first` starts new sums.
  /// Allocates nothing.
  void add(Source src, AnyConstView diff_dst, const Box& dst_box, std::int64_t n, bool first,
           Poll poll = {});
  /// Writes the gradient in the order out,in,kd,kh,kw, and the bias gradient unless it is null.
  void store_sums(float* diff_weight, float* diff_bias);

 private:
  // The buffers of one thread: the points of a block of tiles, for its input channels and for all
  // output channels.
  struct ThreadScratch {
    ScratchBuffer<float> src_points, dst_points;
  };
  // The vectors of input channels and the tiles of a thread.
  struct Share {
    std::int64_t first_vector, end_vector, group;
    std::int64_t vectors() const { return end_vector - first_vector; }
  };
  // Tiles lo to hi of the windows of a box, numbered in d,h,w order.
  struct Tiles {
    std::int64_t lo, hi;
    Spatial extents;
    std::int64_t count() const { return hi - lo; }
  };
  Share share_of(int thread) const;
  std::int64_t pairs() const;
  // Floats from the points of one vector of input channels, or pair of vectors of output channels,
  // to the points of the next, and from one point to the next.
  std::int64_t src_vector_step() const;
  std::int64_t dst_pair_step() const;
  std::int64_t src_point_step() const;
  std::int64_t dst_point_step() const;
  // Floats from the sums of one point to the sums of the next.
  std::int64_t sums_step() const;
  template <Spatial kExtents, Spatial kWindow, class Body>
  void for_each_tile(const Source& src, const Tiles& tiles, const Body& body) const;
  template <class F>
  void transform(const Source& src, const Source& diff_dst, const Share& share, const Tiles& tiles,
                 ThreadScratch& to) const;
  void multiply(const Share& share, const ThreadScratch& points, std::int64_t tiles, bool first,
                Poll& poll);
  template <class F>
  void add_bias(const Source& diff_dst, const Share& share, const Tiles& tiles, bool first);
  template <class F>
  void add_windows(const Source& src, const Source& diff_dst, const Spatial& extents, bool first,
                   Poll& poll);
  template <class F>
  void store_pair(std::int64_t pair, std::int64_t channel, float* diff_weight);

  Geometry geometry_;
  bool with_bias_;
  std::int64_t points_ = 0;
  std::int64_t parts_, groups_;  // parts of input channels and groups of tiles, for threads
  std::int64_t block_;           // tiles
  std::vector<ThreadScratch> scratch_;
  ScratchBuffer<float> sums_;  // group, point, pair, input channel, output channel
  ScratchBuffer<float> bias_sums_;
  AlignedBuffer<float> zeros_;  // for all channels; they are zeros of bf16, too
};

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
