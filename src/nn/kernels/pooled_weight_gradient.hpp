// SPDX-License-Identifier: Apache-2.0
// The weight and bias gradient of a convolution whose output is max pooled over disjoint windows,
// straight from the pooled gradient and the argmax.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "shape.hpp"
#include "src/nn/data_type.hpp"
#include "src/nn/exact_sum.hpp"
#include "src/nn/kernels/argmax.hpp"
#include "src/nn/kernels/isa.hpp"
#include "src/nn/kernels/poll.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {

namespace pooled_weight {
struct TileVoxels;
}

/// Un-pooling a gradient leaves one element per pooling window that is not zero: for the pooled
/// voxel p and output channel o it is the convolution's output voxel q = pool * p + largest(p, o).
/// Therefore, with g = diff(p, o),
///   diff_weight(o, i, k) = sum over p of g * src(q + k, i),   diff_bias(o) = sum over p of g,
/// which takes 1 / (taps of the pool) of the multiply-adds of the convolution's own weight
/// gradient, and nothing is un-pooled. For convolutions of stride 1 and dilation 1 with few input
/// channels: the sums are kept in registers while they run along a tile of voxels, and each thread
/// copies the source under a tile into a small buffer in which the part of a window that lies in
/// one row (or in one plane) is contiguous and starts at a vector; padding is written as zeros
/// there.
///
/// Sums are fp32, built in three levels (a tile in registers, 64 tiles, all tiles), so that a chain
/// of additions has a few hundred links instead of one per voxel, as the error grows with its
/// length. Their order depends only on the geometry, the sequence of add() and the number of
/// threads.
class PooledWeightGradient {
 public:
  struct Geometry {
    std::int64_t src_channels = 1, dst_channels = 1;
    Spatial kernel{1, 1, 1};  ///< kernel of the convolution
    Spatial pool{1, 1, 1};    ///< window and stride of the pooling
  };
  static constexpr std::int64_t kMaxPoolTaps = 128;

  /// A dense block of one sample, ndhwc with the geometry's src_channels. `corner` is the place in
  /// the block of tap 0 of the convolution's window for tap 0 of the pooling window of the first
  /// pooled voxel; it may be negative. Voxels outside the block count as zero and are never read.
  template <class T>
  struct Source {
    const T* data = nullptr;
    Spatial extents{}, corner{};
  };
  /// Values at pooled voxels: (d, h, w, o) at data[d * step[0] + h * step[1] + w * step[2] + o].
  template <class T>
  struct Pooled {
    const T* data = nullptr;
    Spatial step{};  ///< elements between neighbours along d, h, w
    /// The values in `box` of sample n of a view.
    static Pooled of(const TensorView<const T>& view, std::int64_t n, const Box& box) {
      const std::int64_t pixel = view.span.extent(kC), row = pixel * view.span.extent(kW);
      return {view.begin_of(n, box), {row * view.span.extent(kH), row, pixel}};
    }
    const T* at(std::int64_t d, std::int64_t h, std::int64_t w) const {
      return data + d * step[0] + h * step[1] + w * step[2];
    }
  };
  using Argmax = Pooled<std::uint8_t>;

  /// Allocates for at most `threads` threads; with `exact`, for add_cells(), otherwise for add().
  /// Throws Error when an extent is not positive or the pool has more than kMaxPoolTaps taps.
  PooledWeightGradient(const Geometry& geometry, int threads, bool exact = false);

  /// Adds the gradient of a box of `extents` pooled voxels; `first` starts new sums. Best called
  /// once per sample: nothing is un-pooled, so chunks save no memory, and each call ends with a
  /// barrier of the threads. An empty box adds nothing. Instantiated for float and Bfloat16. Local;
  /// allocates nothing.
  template <class S, class T>
  void add(const Source<S>& src, const Spatial& extents, const Pooled<T>& diff,
           const Argmax& argmax, float slope, bool first, Poll poll = {});

  /// Writes the sums: weight in the order out,in,kd,kh,kw, and one bias per output channel.
  void store(float* diff_weight, float* diff_bias) const;

  /// As add(), for a box of whole cells of `cell` pooled voxels: each cell is summed in fp32, in an
  /// order of its own, and becomes one term of an exact sum. The bits therefore depend neither on
  /// the number of threads nor on the cells that a box has.
  template <class S, class T>
  void add_cells(const Source<S>& src, const Spatial& extents, const Spatial& cell,
                 const Pooled<T>& diff, const Argmax& argmax, float slope, Poll poll = {});

  /// Adds the sums of the cells so far to other sums, in the order of store(), and starts new ones.
  void store_exact(const ExactView& diff_weight, const ExactView& diff_bias);

  /// The number of tiles, shared by threads, into which `extents` pooled voxels are cut.
  std::int64_t tiles(const Spatial& extents) const;

 private:
  struct Tile;
  using Accumulate = void (*)(const pooled_weight::TileVoxels& voxels, const float* window,
                              std::int64_t channel, float* sums);

  // The buffers of one thread.
  struct Scratch {
    AlignedBuffer<float> line, rows, diff;
    AlignedBuffer<std::uint8_t> argmax;
    AlignedBuffer<std::int32_t> offset;
    std::array<AlignedBuffer<float>, 2> weight;  // sums since the last flush, and before it
    std::array<AlignedBuffer<float>, 3> bias;    // sums of the tile, and as above
    ExactSums weight_cells, bias_cells;          // sums of all cells
  };

  void choose_vectors();
  void choose_group();
  void choose_tile();
  template <class S>
  const float* line_of(const Source<S>& src, const Tile& tile, std::int64_t plane,
                       std::int64_t line, float* copy) const;
  template <class S>
  void copy_plane(const Source<S>& src, const Tile& tile, std::int64_t plane,
                  Scratch& scratch) const;
  template <class T>
  void copy_diff(const Tile& tile, const Pooled<T>& diff, const Argmax& argmax, float slope,
                 Scratch& scratch) const;
  void accumulate(const Tile& tile, Scratch& scratch) const;
  template <class S, class T>
  void add_tile(const Source<S>& src, const Tile& tile, const Pooled<T>& diff, const Argmax& argmax,
                float slope, Scratch& scratch) const;
  template <class Body>
  void for_each_weight(const Body& body) const;
  static void flush(Scratch& scratch);
  static void clear(Scratch& scratch);
  std::int64_t place_of(std::int64_t channel, std::int64_t d, std::int64_t h,
                        std::int64_t at) const;

  Geometry geometry_;
  // A window is planes x rows x vectors; a row is one row of the kernel, or all when they are
  // merged into one run of memory. A group is the part of a window that is summed in registers at
  // once.
  std::int64_t rows_ = 1, run_ = 1, vectors_ = 1;
  bool merged_ = false, expanded_ = false;
  std::array<std::int64_t, 3> group_{1, 1, 1};  // planes, rows, vectors
  std::int64_t channels_at_once_ = 1;
  Accumulate accumulate_many_ = nullptr, accumulate_one_ = nullptr;
  // The largest tile, in pooled voxels, and the buffers under it, in floats.
  Spatial tile_{1, 1, 1};
  std::int64_t line_ = 1;
  std::int64_t pixel_step_ = 1, row_step_ = 1, plane_step_ = 1;
  std::array<std::int32_t, 256> tap_offset_{};
  std::vector<Scratch> scratch_;
};

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
