// SPDX-License-Identifier: Apache-2.0
// Weight gradients by Winograd's minimal filtering: see winograd_weight_gradient.hpp.
#include "src/nn/kernels/winograd_weight_gradient.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "error.hpp"
#include "src/nn/kernels/float_types.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {

using namespace winograd;

namespace {

using pooled_weight::ceil_to;

constexpr std::int64_t kPair = WinogradConvolution::kPair, kPairLanes = kPair * kVector;
// The input channels whose products with a pair of vectors are summed in registers.
constexpr std::int64_t kRows = kVector / 2;
// The floats left free after each row of points, since rows would otherwise often fall into one
// set of a cache.
constexpr std::int64_t kGap = 16;
// The share of a second-level cache for the points of a block, and the tiles of a block: with few
// tiles, sums would be read and written too often. Measured on a Zen 4 (1 MiB), 32 to 32 channels:
// 24 tiles take 0.65 of the time of 8, and 0.8 of that of 64; with more channels, 24 to 64 are
// alike there, but on a Zen 3 (512 KiB) products in blocks of 48 take 0.5 to 0.9 of the time of 24
// where the sums do not stay in the cache.
constexpr std::int64_t kBlockFloats = 72 << 10, kLeastBlock = 24, kMostBlock = 64;
// For large windows, which have more points: on a Xeon, 12 to 24 tiles are alike.
constexpr std::int64_t kLeastLargeBlock = 16;
constexpr std::int64_t kStreamedBlock = 48;

// Adds src^T diff over `tiles` tiles, for kRows input channels and a pair of vectors of output
// channels, to `sums`; `first` starts new sums.
void multiply_rows(const float* src, const float* diff, std::int64_t tiles, bool first,
                   float* sums) {
  std::array<std::array<Vector, kPair>, kRows> totals{};
  for (std::int64_t t = 0; t < tiles; ++t, src += kVector, diff += kPairLanes) {
    std::array<Vector, kPair> diffs;
    unroll<kPair>([&](auto v) { diffs[v] = in_register(load(diff + v * kVector)); });
    unroll<kRows>([&](auto row) {
      const float value = src[row];
      unroll<kPair>([&](auto v) { totals[row][v] += diffs[v] * value; });
    });
  }
  unroll<kRows>([&](auto row) {
    unroll<kPair>([&](auto v) {
      float* const to = sums + (row * kPair + v) * kVector;
      store(first ? totals[row][v] : load(to) + totals[row][v], to);
    });
  });
}

}  // namespace

bool WinogradWeightGradient::supports(const Geometry& g) {
  return WinogradConvolution::supports(g) && g.dst_channels % kVector == 0;
}

// The costs are in multiply-adds of vectors, as in WinogradConvolution::pays().
bool WinogradWeightGradient::pays(const Geometry& g, std::int64_t windows, std::int64_t voxels,
                                  double at_once) {
  constexpr double kDirect = 1 / 0.85;
  const std::int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  return cost(g, windows) < static_cast<double>(voxels * taps * g.src_channels * g.dst_channels) /
                                static_cast<double>(kVector) * kDirect / at_once;
}

// Infinite where sums would take too much memory.
double WinogradWeightGradient::cost(const Geometry& g, std::int64_t windows) {
  constexpr double kInput = 14, kOutput = 10, kProduct = 1.1, kWeights = 4;
  constexpr double kMostSums = 1 << 22;  // floats per layer
  const auto in = static_cast<double>(g.src_channels), out = static_cast<double>(g.dst_channels);
  const auto points = static_cast<double>(points_of(g.kernel, g.pool));
  if (points * in * out > kMostSums) return std::numeric_limits<double>::infinity();
  constexpr auto kLanesOfVector = static_cast<double>(kVector);
  const double products = in * out / kLanesOfVector;
  return points * (static_cast<double>(windows) *
                       (kProduct * products + (kInput * in + kOutput * out) / kLanesOfVector) +
                   kWeights * products);
}

WinogradWeightGradient::WinogradWeightGradient(const Geometry& geometry, bool with_bias,
                                               int threads, Scratch scratch)
    : geometry_(geometry), with_bias_(with_bias) {
  require(supports(geometry) && threads > 0,
          text("Winograd weight gradient of {} to {} channels, kernel {}x{}x{}, on {} threads",
               geometry.src_channels, geometry.dst_channels, geometry.kernel[0], geometry.kernel[1],
               geometry.kernel[2], threads),
          text("use kernels of 2x2x2, 3x3x3 or 3x1x3 and multiples of {} channels", kVector));
  with_filtering(geometry.kernel, geometry.pool,
                 [&](auto filtering) { points_ = filtering.kPoints; });
  const std::int64_t vectors = geometry.src_channels / kVector;
  parts_ = std::min<std::int64_t>(threads, vectors);
  groups_ = threads / parts_;
  const std::int64_t most_vectors = (vectors + parts_ - 1) / parts_;
  const std::int64_t floats = points_ * (most_vectors * kVector + pairs() * kPairLanes);
  block_ = std::clamp(kBlockFloats / floats,
                      WinogradConvolution::is_large(geometry) ? kLeastLargeBlock : kLeastBlock,
                      kMostBlock);
  const std::int64_t sums = points_ * most_vectors * kVector * pairs() * kPairLanes;
  if (block_ * floats + sums > WinogradConvolution::kCacheFloats)
    block_ = std::max(block_, kStreamedBlock);
  for (std::int64_t t = 0; t < parts_ * groups_; ++t) {
    ThreadScratch& thread = scratch_.emplace_back();
    thread.src_points = scratch.take<float>(points_ * src_point_step());
    thread.dst_points = scratch.take<float>(points_ * dst_point_step());
  }
  sums_ = scratch.take<float>(groups_ * points_ * sums_step());
  if (with_bias) bias_sums_ = scratch.take<float>(groups_ * pairs() * kPairLanes);
  zeros_ = AlignedBuffer<float>(std::max(geometry.src_channels, geometry.dst_channels));
}

WinogradWeightGradient::Share WinogradWeightGradient::share_of(int thread) const {
  const std::int64_t vectors = geometry_.src_channels / kVector, part = thread % parts_;
  return {part * vectors / parts_, (part + 1) * vectors / parts_, thread / parts_};
}

std::int64_t WinogradWeightGradient::pairs() const {
  return (geometry_.dst_channels + kPairLanes - 1) / kPairLanes;
}
std::int64_t WinogradWeightGradient::src_vector_step() const { return block_ * kVector + kGap; }
std::int64_t WinogradWeightGradient::dst_pair_step() const { return block_ * kPairLanes + kGap; }
std::int64_t WinogradWeightGradient::src_point_step() const {
  const std::int64_t vectors = geometry_.src_channels / kVector;
  return (vectors + parts_ - 1) / parts_ * src_vector_step();
}
std::int64_t WinogradWeightGradient::dst_point_step() const { return pairs() * dst_pair_step(); }
std::int64_t WinogradWeightGradient::sums_step() const {
  return pairs() * geometry_.src_channels * kPairLanes + kGap;
}

// Calls body(tile, voxels) for the voxels of kExtents of each tile.
template <Spatial kExtents, Spatial kWindow, class Body>
void WinogradWeightGradient::for_each_tile(const Source& src, const Tiles& tiles,
                                           const Body& body) const {
  with_float_type(src.type, [&](auto zero) {
    using T = decltype(zero);
    const T* const zeros = reinterpret_cast<const T*>(zeros_.data());
    std::array<const T*, kExtents[0] * kExtents[1] * kExtents[2]> voxels;
    for (std::int64_t tile = 0; tile < tiles.count(); ++tile) {
      find_voxels<kExtents, kWindow>(src, place_of(tiles.lo + tile, tiles.extents), zeros,
                                     voxels.data());
      body(tile, voxels.data());
    }
  });
}

// Transforms the voxels of all tiles. For each point and vector of input channels, or pair of
// vectors of output channels, the values of all tiles are contiguous, as products read them.
template <class F>
void WinogradWeightGradient::transform(const Source& src, const Source& diff_dst,
                                       const Share& share, const Tiles& tiles,
                                       ThreadScratch& to) const {
  for_each_tile<F::kSides, F::kWindow>(src, tiles, [&](std::int64_t tile, const auto* voxels) {
    float* point = to.src_points.data() + tile * kVector;
    for (std::int64_t v = 0; v < share.vectors(); ++v, point += src_vector_step())
      transform_input<F>(voxels, (share.first_vector + v) * kVector, point, src_point_step());
  });
  for_each_tile<F::kWindow, F::kWindow>(
      diff_dst, tiles, [&](std::int64_t tile, const auto* voxels) {
        float* const point = to.dst_points.data() + tile * kPairLanes;
        for (std::int64_t c = 0; c < geometry_.dst_channels; c += kVector)
          transform_outputs<F>(voxels, c, point + c / kPairLanes * dst_pair_step() + c % kPairLanes,
                               dst_point_step());
      });
}

void WinogradWeightGradient::multiply(const Share& share, const ThreadScratch& points,
                                      std::int64_t tiles, bool first, Poll& poll) {
  const std::int64_t channels = geometry_.src_channels;
  for (std::int64_t point = 0; point < points_; ++point) {
    float* const sums = sums_.data() + (share.group * points_ + point) * sums_step();
    const float* const src = points.src_points.data() + point * src_point_step();
    for (std::int64_t pair = 0; pair < pairs(); ++pair) {
      const float* const diff =
          points.dst_points.data() + point * dst_point_step() + pair * dst_pair_step();
      float* const to = sums + (pair * channels + share.first_vector * kVector) * kPairLanes;
      for (std::int64_t c = 0; c < share.vectors() * kVector; c += kRows)
        multiply_rows(src + c / kVector * src_vector_step() + c % kVector, diff, tiles, first,
                      to + c * kPairLanes);
    }
    poll();
  }
}

// Adds the bias gradient: the sum of the voxels of all tiles.
template <class F>
void WinogradWeightGradient::add_bias(const Source& diff_dst, const Share& share,
                                      const Tiles& tiles, bool first) {
  float* const sums = bias_sums_.data() + share.group * pairs() * kPairLanes;
  if (first) std::fill_n(sums, pairs() * kPairLanes, 0.0F);
  for_each_tile<F::kWindow, F::kWindow>(diff_dst, tiles, [&](std::int64_t, const auto* voxels) {
    for (std::int64_t c = 0; c < geometry_.dst_channels; c += kVector) {
      Vector sum{};
      unroll<F::kOutputs>([&](auto e) { sum += load_values(voxels[e] + c, kVector); });
      store(load(sums + c) + sum, sums + c);
    }
  });
}

template <class F>
void WinogradWeightGradient::add_windows(const Source& src, const Source& diff_dst,
                                         const Spatial& extents, bool first, Poll& poll) {
  const std::int64_t windows = extents[0] * extents[1] * extents[2];
  const auto threads = static_cast<int>(scratch_.size());
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int thread = 0; thread < threads; ++thread) {
    const Share share = share_of(thread);
    ThreadScratch& scratch = scratch_[static_cast<std::size_t>(thread)];
    bool starts = first;
    const std::int64_t begin = share.group * windows / groups_;
    const std::int64_t end = (share.group + 1) * windows / groups_;
    for (std::int64_t lo = begin; lo < end || starts; lo += block_) {
      const Tiles tiles{lo, std::min(end, lo + block_), extents};
      transform<F>(src, diff_dst, share, tiles, scratch);
      multiply(share, scratch, tiles.count(), starts, poll);
      if (with_bias_ && share.first_vector == 0) add_bias<F>(diff_dst, share, tiles, starts);
      starts = false;
    }
  }
}

void WinogradWeightGradient::add(Source src, AnyConstView diff_dst, const Box& dst_box,
                                 std::int64_t n, bool first, Poll poll) {
  const Spatial& window = geometry_.pool;
  const Box windows = WinogradConvolution::windows_of(dst_box, window);
  const std::int64_t pixel = diff_dst.span.extent(kC), row = pixel * diff_dst.span.extent(kW);
  Source diffs{diff_dst.begin_of(n, dst_box),
               {row * diff_dst.span.extent(kH), row, pixel},
               dst_box.shape().spatial(),
               {},
               diff_dst.type};
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t before = dst_box.lo[a + 1] - window[a] * windows.lo[a + 1];
    src.corner[a] -= before;
    diffs.corner[a] -= before;
  }
  const Spatial extents = windows.shape().spatial();
  with_filtering(geometry_.kernel, geometry_.pool, [&](auto filtering) {
    add_windows<decltype(filtering)>(src, diffs, extents, first, poll);
  });
}

template <class F>
void WinogradWeightGradient::store_pair(std::int64_t pair, std::int64_t channel,
                                        float* diff_weight) {
  const std::int64_t ci = geometry_.src_channels;
  const std::int64_t end = std::min(geometry_.dst_channels, (pair + 1) * kPairLanes);
  for (std::int64_t o = pair * kPairLanes; o < end; o += kVector) {
    float* const sums = sums_.data() + (pair * ci + channel) * kPairLanes + o % kPairLanes;
    for (std::int64_t point = F::kPoints; point < groups_ * F::kPoints; ++point) {
      float* const total = sums + point % F::kPoints * sums_step();
      store(load(total) + load(sums + point * sums_step()), total);
    }
    const auto taps = transform_sums<F>(sums, sums_step());
    for (std::int64_t lane = 0; lane < kVector; ++lane) {
      float* const to = diff_weight + ((o + lane) * ci + channel) * F::kTaps;
      for (std::int64_t tap = 0; tap < F::kTaps; ++tap)
        to[tap] = taps[static_cast<std::size_t>(tap)][lane];
    }
  }
}

void WinogradWeightGradient::store_sums(float* diff_weight, float* diff_bias) {
  const std::int64_t channels = geometry_.src_channels;
  const auto threads = static_cast<int>(scratch_.size());
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t task = 0; task < pairs() * channels; ++task)
    with_filtering(geometry_.kernel, geometry_.pool, [&](auto filtering) {
      store_pair<decltype(filtering)>(task / channels, task % channels, diff_weight);
    });
  for (std::int64_t o = 0; diff_bias != nullptr && o < geometry_.dst_channels; ++o) {
    diff_bias[o] = 0;
    for (std::int64_t group = 0; group < groups_; ++group)
      diff_bias[o] += bias_sums_.data()[group * pairs() * kPairLanes + o];
  }
}

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
