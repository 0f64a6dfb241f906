// SPDX-License-Identifier: Apache-2.0
// Convolutions of many channels by Winograd's minimal filtering, either plain or pooled as they are
// transformed back, so that no convolution plane is ever written.
#pragma once

#include <cstdint>
#include <vector>

#include "shape.hpp"
#include "src/nn/kernels/argmax.hpp"
#include "src/nn/kernels/isa.hpp"
#include "src/nn/kernels/poll.hpp"
#include "src/nn/kernels/pooled_weight_gradient.hpp"
#include "src/nn/kernels/pooled_weight_tile.hpp"
#include "src/nn/kernels/winograd_transform.hpp"
#include "src/nn/scratch.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {

/// dst = convolution + bias, or leaky_relu(max_pool(convolution + bias)), in fp32, of tensors of
/// fp32 or bf16 and weights of fp32, for kernels of 2x2x2 or 3x3x3, stride and dilation 1, pooling
/// windows of 2x2x2 and whole vectors of input channels; or for images, with kernels of 3x1x3 and
/// windows of 2x1x2. A tile of F(2, 2) or F(2, 3) in each dimension (winograd_transform.hpp) gives
/// a window of voxels of the convolution, which may be a pooling window: 27 instead of 64, or 64
/// instead of 216, or 16 instead of 36, products per pair of channels and window. The sums over
/// input channels are products of small matrices, one for each point of a tile: voxels x input
/// channels x output channels, in a block of tiles that fits a second-level cache.
///
/// Without pooling, windows of 3x3x3 and 3x1x3 kernels may also be 2x4x4 and 4x1x4, by F(4, 3)
/// along the axes of four: 144 instead of 864, or 36 instead of 144 products. Their elements depend
/// on all voxels of a window, by rounding.
///
/// Each element of other windows is computed by the same operations for any box, cut and number of
/// threads, and therefore has the same bits. It does not depend on voxels of the window that its
/// direct sum would not read, so that windows, which begin at even voxels, may reach out of any
/// box. An infinity in the input makes NaN of elements where a direct sum would give infinity.
class WinogradConvolution {
 public:
  /// A product of matrices keeps kRows windows x kPair vectors of output channels in registers.
  static constexpr std::int64_t kPair = 2, kRows = pooled_weight::kMaxSums / kPair;

  /// The floats assumed to stay in a second-level cache of 1 MiB.
  static constexpr std::int64_t kCacheFloats = 1 << 18;

  using Geometry = PooledWeightGradient::Geometry;
  using Source = winograd::Source;

  static bool supports(const Geometry& geometry);
  /// Whether the windows are larger than those of F(2, 2) and F(2, 3).
  static bool is_large(const Geometry& geometry);
  /// The cost of `windows` windows that share one transformation of the weights, by a model of
  /// shapes that is equal in every run.
  static double cost(const Geometry& geometry, std::int64_t windows);
  /// Whether they cost less than direct sums of `voxels` voxels, which do `at_once` multiply-adds
  /// in the time of one of fp32 (products_at_once()).
  static bool pays(const Geometry& geometry, std::int64_t windows, std::int64_t voxels,
                   double at_once = 1);
  /// As above, with all voxels of each window.
  static bool pays(const Geometry& geometry, std::int64_t windows, double at_once = 1) {
    const Spatial& window = geometry.pool;
    return pays(geometry, windows, window[0] * window[1] * window[2] * windows, at_once);
  }

  /// The windows that begin at multiples of their extents and hold the voxels of a box.
  static Box windows_of(const Box& voxels, const Spatial& window = {2, 2, 2});

  /// The memory of transformed weights: kept between calls of the layer, or scratch.
  enum class Weights : std::uint8_t { kKept, kInScratch };

  /// Prepares forward passes of boxes of at most `windows` windows, on at most `threads` threads.
  /// Throws Error unless the geometry is supported.
  WinogradConvolution(const Geometry& geometry, std::int64_t windows, int threads,
                      Scratch scratch = {}, Weights weights = Weights::kKept);

  /// Transforms weights in the order out,in,kd,kh,kw, which must stay unchanged until the next
  /// call, and copies one bias per output channel, or takes zeros if it is null.
  void load_weights(const float* weight, const float* bias);
  /// Takes the weights, in that order, of the convolution whose adjoint this one is: its outputs
  /// are this one's inputs, and taps count backwards.
  void load_adjoint_weights(const float* weight);
  /// With Weights::kInScratch: transforms the weights, at the start of each call of the layer.
  void transform_given();

  /// Writes the box `dst_box` of sample n of `dst` (fp32 or bf16). Elements of the convolution of
  /// bf16 are rounded to it before they are pooled. The box has all output channels;
  /// dst may span more. Records argmax as PooledActivation does unless it has no data. Allocates
  /// nothing.
  void forward(const Source& src, const Box& dst_box, std::int64_t n, float slope, AnyView dst,
               Argmax argmax, Poll poll = {});
  /// As forward(), without pooling and activation. `src.corner` is the voxel that the first voxel
  /// of the box reads first. Windows begin at even voxels of the tensor.
  void convolve(Source src, const Box& dst_box, std::int64_t n, AnyView dst, Poll poll = {});

 private:
  // The buffers of one thread: points of a block of windows, weights of a pair, products of both.
  struct ThreadScratch {
    ScratchBuffer<float> points, weights, products;
  };
  // Runs lo to hi of windows, which are numbered in d,h,w order and cut into runs as equal as
  // possible.
  struct Block {
    std::int64_t first = 0, count = 0, lo = 0, hi = 0;
    Block(std::int64_t first_window, std::int64_t windows)
        : first(first_window), count(windows), hi(runs()) {}
    std::int64_t runs() const { return (count + kRows - 1) / kRows; }
    std::int64_t at(std::int64_t run) const { return first + run * count / runs(); }
    Block part(std::int64_t first_run, std::int64_t end) const {
      Block block = *this;
      block.lo = first_run, block.hi = end;
      return block;
    }
  };
  // The weight from input 0 to output 0, and the steps to other channels and taps.
  struct GivenWeights {
    const float* data = nullptr;
    std::int64_t out_step = 0, in_step = 0, tap_step = 0;
  };
  // Targets of the windows' outputs; `windows` is a box of all of them.
  template <class T>
  struct PooledTarget;
  template <class T>
  struct PlainTarget;
  void take_weights(const GivenWeights& weights, const float* bias);
  float* all_weights() {
    return kept_weights_.size() > 0 ? kept_weights_.data() : scratch_weights_.data();
  }
  std::int64_t best_block_runs() const;
  std::int64_t pairs() const;
  // The floats from one point to the next, and of all points.
  std::int64_t point_step() const;
  std::int64_t weight_step() const;
  std::int64_t points_of_run() const;
  std::int64_t products_of_run() const;
  std::int64_t weights_of_pair() const;
  template <class F>
  void transform_pair(std::int64_t pair, std::int64_t in_vector, float* to) const;
  template <class F>
  void transform_block(const Source& src, const Spatial& extents, const Block& block,
                       float* points) const;
  template <class F>
  void multiply_block(const Block& block, std::int64_t pair, const float* points,
                      const float* weights, float* products) const;
  template <class F, class Target>
  void finish_block(const Block& block, std::int64_t pair, const float* products,
                    const Target& to) const;
  template <class F, class Target>
  void forward_windows(const Source& src, const Target& to, Poll& poll);
  template <class F, class Target>
  void forward_channels(const Source& src, const Target& to, Poll& poll);
  template <class Target>
  void run(const Source& src, const Target& to, Poll& poll);

  Geometry geometry_;
  std::int64_t points_ = 0, in_vectors_ = 0, out_vectors_ = 0;
  std::int64_t block_runs_ = 1;
  // True with fewer windows than output channels, where the points of all windows take less memory
  // than the transformed weights: then points are kept for a forward pass, and weights for a pair
  // of vectors of output channels; otherwise all weights, and points for a block.
  bool by_channels_ = false;
  GivenWeights given_;
  ScratchBuffer<float> points_of_box_;  // for each run, vector of input channels and point
  // By pair, vector of input channels and point; only one of the two is used.
  AlignedBuffer<float> kept_weights_;
  ScratchBuffer<float> scratch_weights_;
  AlignedBuffer<float> bias_;   // padded to whole pairs
  AlignedBuffer<float> zeros_;  // for all input channels; they are zeros of bf16, too
  std::vector<ThreadScratch> scratch_;
};

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
