// SPDX-License-Identifier: Apache-2.0
// The weight gradient under max pooling: see pooled_weight_gradient.hpp.
#include "src/nn/kernels/pooled_weight_gradient.hpp"

#include <omp.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "src/nn/kernels/pooled_weight_tile.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {
namespace {

using namespace pooled_weight;

// The largest tile in pooled voxels and, for its source, in bytes. This tile was the fastest or
// second fastest of those of 8 to 64 voxels, for kernels of 2 and 3 (L1 data cache of 48 KiB):
// smaller tiles copy more source per voxel and pass over the sums more often, larger ones do not
// fit the cache.
constexpr Spatial kMaxTile{2, 2, 8};
constexpr std::int64_t kMaxTileBytes = 40 << 10;
constexpr std::int64_t kTilesAFlush = 64;

}  // namespace

// A box of pooled voxels.
struct PooledWeightGradient::Tile {
  Spatial first, extents;
};

namespace {

// The blocks of `size` that `extents` are cut into, in d,h,w order.
struct Blocks {
  Spatial extents, size, counts{};
  Blocks(const Spatial& of_all, const Spatial& of_each) : extents(of_all), size(of_each) {
    const bool empty = std::min({extents[0], extents[1], extents[2]}) <= 0;
    for (std::size_t a = 0; a < 3; ++a)
      counts[a] = empty ? 0 : ceil_to(extents[a], size[a]) / size[a];
  }
  std::int64_t count() const { return counts[0] * counts[1] * counts[2]; }
  Spatial first(std::int64_t i) const {
    return {i / (counts[1] * counts[2]) * size[0], i / counts[2] % counts[1] * size[1],
            i % counts[2] * size[2]};
  }
};

}  // namespace

PooledWeightGradient::PooledWeightGradient(const Geometry& geometry, int threads, bool exact)
    : geometry_(geometry), scratch_(static_cast<std::size_t>(std::max(threads, 0))) {
  const Spatial& k = geometry_.kernel;
  const Spatial& p = geometry_.pool;
  const bool positive = std::min({k[0], k[1], k[2], p[0], p[1], p[2], geometry_.src_channels,
                                  geometry_.dst_channels, std::int64_t{threads}}) > 0;
  require(positive && p[0] * p[1] * p[2] <= kMaxPoolTaps,
          text("weight gradient of {} to {} channels, kernel {}x{}x{}, under a pool of {}x{}x{} on "
               "{} threads",
               geometry_.src_channels, geometry_.dst_channels, k[0], k[1], k[2], p[0], p[1], p[2],
               threads),
          text("extents must be positive and a pool have at most {} taps", kMaxPoolTaps));
  choose_vectors();
  choose_group();
  choose_tile();
  const std::int64_t co = geometry_.dst_channels;
  for (Scratch& s : scratch_) {
    s.line = AlignedBuffer<float>(line_);
    s.rows = AlignedBuffer<float>((p[0] * tile_[0] + k[0] - 1) * plane_step_);
    s.argmax = AlignedBuffer<std::uint8_t>(tile_[0] * tile_[1] * tile_[2] * co);
    s.offset = AlignedBuffer<std::int32_t>(tile_[0] * tile_[1] * tile_[2]);
    s.diff = AlignedBuffer<float>(tile_[0] * tile_[1] * tile_[2] * co);
    for (auto& sums : s.weight) sums = AlignedBuffer<float>(co * k[0] * rows_ * vectors_ * kVector);
    for (auto& sums : s.bias) sums = AlignedBuffer<float>(co);
    if (!exact) continue;
    s.weight_cells = ExactSums(s.weight[1].size());
    s.bias_cells = ExactSums(co);
  }
}

void PooledWeightGradient::choose_vectors() {
  const auto [kernel_d, kernel_h, kernel_w] = geometry_.kernel;
  const std::int64_t line_run = kernel_w * geometry_.src_channels;
  merged_ = ceil_to(kernel_h * line_run, kVector) < kernel_h * ceil_to(line_run, kVector);
  rows_ = merged_ ? 1 : kernel_h;
  run_ = merged_ ? kernel_h * line_run : line_run;
  vectors_ = ceil_to(run_, kVector) / kVector;
  expanded_ = merged_ || geometry_.src_channels % kVector != 0;
  pixel_step_ = expanded_ ? vectors_ * kVector : geometry_.src_channels;
}

// Chooses the largest group of vectors that divides the window and fits the registers.
void PooledWeightGradient::choose_group() {
  std::int64_t best = 0;
  unroll<3>([&](auto d) {
    unroll<3>([&](auto h) {
      unroll<3>([&](auto n) {
        constexpr std::int64_t kD = d + 1, kH = h + 1, kN = n + 1, kSums = kD * kH * kN;
        if constexpr (kSums <= kMaxSums) {
          constexpr std::int64_t kC = std::min(kMaxSums / kSums, kMaxChannels);
          if (geometry_.kernel[0] % kD != 0 || rows_ % kH != 0 || vectors_ % kN != 0) return;
          if (kSums <= best) return;
          best = kSums;
          group_ = {kD, kH, kN};
          channels_at_once_ = kC;
          accumulate_many_ = accumulate_tile<kD, kH, kN, kC>;
          accumulate_one_ = accumulate_tile<kD, kH, kN, 1>;
        }
      });
    });
  });
}

// Chooses the largest tile, halved along its longest side until its source fits kMaxTileBytes.
void PooledWeightGradient::choose_tile() {
  const Spatial& k = geometry_.kernel;
  const Spatial& p = geometry_.pool;
  const std::int64_t ci = geometry_.src_channels;
  const auto set = [&](const Spatial& tile) {
    tile_ = tile;
    const std::int64_t pixels = p[2] * tile[2] + k[2] - 1;
    line_ = ceil_to(pixels * ci, kVector) + vectors_ * kVector;
    row_step_ = expanded_ ? p[2] * tile[2] * pixel_step_ : line_;
    plane_step_ = row_step_ * (merged_ ? p[1] * tile[1] : p[1] * tile[1] + k[1] - 1);
    return (p[0] * tile[0] + k[0] - 1) * plane_step_ * std::int64_t{sizeof(float)} <= kMaxTileBytes;
  };
  for (Spatial tile = kMaxTile; !set(tile) && tile != Spatial{1, 1, 1};)
    *std::max_element(tile.rbegin(), tile.rend()) /= 2;
  for (std::int64_t tap = 0; tap < p[0] * p[1] * p[2]; ++tap) {
    const std::int64_t offset = tap / (p[1] * p[2]) * plane_step_ + tap / p[2] % p[1] * row_step_ +
                                tap % p[2] * pixel_step_;
    tap_offset_[static_cast<std::size_t>(tap)] = narrow<std::int32_t>(offset);
    tap_offset_[static_cast<std::size_t>(tap | kSlopeBit)] = narrow<std::int32_t>(offset);
  }
}

// One line of the source under a tile, as floats: in place when it can be read there, otherwise
// copied, with zeros where it leaves the block. In place, a reader may go past the last window's
// end by less than `vectors_` vectors: the block must have that many more elements.
template <class S>
const float* PooledWeightGradient::line_of(const Source<S>& src, const Tile& tile,
                                           std::int64_t plane, std::int64_t line,
                                           float* copy) const {
  const std::int64_t ci = geometry_.src_channels;
  const std::int64_t pixels = geometry_.pool[2] * tile.extents[2] + geometry_.kernel[2] - 1;
  const std::int64_t d = src.corner[0] + tile.first[0] * geometry_.pool[0] + plane;
  const std::int64_t h = src.corner[1] + tile.first[1] * geometry_.pool[1] + line;
  const std::int64_t w = src.corner[2] + tile.first[2] * geometry_.pool[2];
  const auto [depth, height, width] = src.extents;
  const bool inside = d >= 0 && d < depth && h >= 0 && h < height;
  const std::int64_t lo = std::clamp(-w, std::int64_t{0}, pixels);
  const std::int64_t hi = inside ? std::clamp(width - w, lo, pixels) : lo;
  const std::int64_t row = (d * height + h) * width;
  if constexpr (std::is_same_v<S, float>) {
    const bool room = (row + w + pixels) * ci + vectors_ * kVector <= depth * height * width * ci;
    if (expanded_ && room && hi - lo == pixels) return src.data + (row + w) * ci;
  }
  if (lo == hi) return std::fill_n(copy, pixels * ci, 0.0F) - pixels * ci;
  std::fill_n(copy, lo * ci, 0.0F);
  const S* from = src.data + (row + w + lo) * ci;
  for (std::int64_t i = 0; i < (hi - lo) * ci; ++i) copy[lo * ci + i] = static_cast<float>(from[i]);
  std::fill_n(copy + hi * ci, (pixels - hi) * ci, 0.0F);
  return copy;
}

// Lays out plane `plane` of the source under a tile.
template <class S>
void PooledWeightGradient::copy_plane(const Source<S>& src, const Tile& tile, std::int64_t plane,
                                      Scratch& scratch) const {
  const Spatial& k = geometry_.kernel;
  const std::int64_t ci = geometry_.src_channels, run = k[2] * ci;
  const std::int64_t windows_w = geometry_.pool[2] * tile.extents[2];
  const std::int64_t windows_h = geometry_.pool[1] * tile.extents[1];
  float* rows = scratch.rows.data() + plane * plane_step_;
  for (std::int64_t line = 0; line < windows_h + k[1] - 1; ++line) {
    if (!expanded_) {
      line_of(src, tile, plane, line, rows + line * row_step_);
      continue;
    }
    const float* from = line_of(src, tile, plane, line, scratch.line.data());
    if (!merged_) {
      copy_vectors(from, ci, vectors_, windows_w, rows + line * row_step_, pixel_step_);
      continue;
    }
    for (std::int64_t kh = 0; kh < k[1]; ++kh)
      if (line >= kh && line - kh < windows_h)
        copy_runs(from, ci, run, windows_w, rows + (line - kh) * row_step_ + kh * run, pixel_step_);
  }
}

template <class T>
void PooledWeightGradient::copy_diff(const Tile& tile, const Pooled<T>& diff, const Argmax& argmax,
                                     float slope, Scratch& scratch) const {
  const std::int64_t co = geometry_.dst_channels;
  float* bias = scratch.bias[0].data();
  std::int64_t voxel = 0;
  const auto [first_d, first_h, first_w] = tile.first;
  for (std::int64_t d = 0; d < tile.extents[0]; ++d)
    for (std::int64_t h = 0; h < tile.extents[1]; ++h)
      for (std::int64_t w = 0; w < tile.extents[2]; ++w, ++voxel) {
        const std::uint8_t* largest = argmax.at(first_d + d, first_h + h, first_w + w);
        scale_and_sum(diff.at(first_d + d, first_h + h, first_w + w), largest, kSlopeBit, slope, co,
                      scratch.diff.data() + voxel * co, bias);
        std::copy_n(largest, co, scratch.argmax.data() + voxel * co);
        const std::int64_t offset = d * geometry_.pool[0] * plane_step_ +
                                    h * geometry_.pool[1] * row_step_ +
                                    w * geometry_.pool[2] * pixel_step_;
        scratch.offset.data()[voxel] = static_cast<std::int32_t>(offset);
      }
  add_and_clear(scratch.bias[0].span(), scratch.bias[1].span());
}

void PooledWeightGradient::accumulate(const Tile& tile, Scratch& scratch) const {
  const std::int64_t co = geometry_.dst_channels;
  const TileVoxels voxels{tile.extents[0] * tile.extents[1] * tile.extents[2],
                          row_step_,
                          plane_step_,
                          scratch.offset.data(),
                          tap_offset_.data(),
                          scratch.argmax.data(),
                          scratch.diff.data(),
                          co};
  float* sums = scratch.weight[0].data();
  for (std::int64_t d = 0; d < geometry_.kernel[0]; d += group_[0])
    for (std::int64_t h = 0; h < rows_; h += group_[1])
      for (std::int64_t n = 0; n < vectors_; n += group_[2]) {
        const float* window = scratch.rows.data() + d * plane_step_ + h * row_step_ + n * kVector;
        std::int64_t o = 0;
        for (; o + channels_at_once_ <= co; o += channels_at_once_)
          accumulate_many_(voxels, window, o, sums);
        for (; o < co; ++o) accumulate_one_(voxels, window, o, sums);
        sums += co * group_[0] * group_[1] * group_[2] * kVector;
      }
}

std::int64_t PooledWeightGradient::tiles(const Spatial& extents) const {
  std::int64_t tiles = 1;
  for (std::size_t a = 0; a < 3; ++a)
    tiles *= ceil_to(std::max<std::int64_t>(extents[a], 0), tile_[a]) / tile_[a];
  return tiles;
}

template <class S, class T>
void PooledWeightGradient::add_tile(const Source<S>& src, const Tile& tile, const Pooled<T>& diff,
                                    const Argmax& argmax, float slope, Scratch& scratch) const {
  const std::int64_t planes = geometry_.pool[0] * tile.extents[0] + geometry_.kernel[0] - 1;
  for (std::int64_t plane = 0; plane < planes; ++plane) copy_plane(src, tile, plane, scratch);
  copy_diff(tile, diff, argmax, slope, scratch);
  accumulate(tile, scratch);
}

template <class S, class T>
void PooledWeightGradient::add(const Source<S>& src, const Spatial& extents, const Pooled<T>& diff,
                               const Argmax& argmax, float slope, bool first, Poll poll) {
  const Blocks blocks(extents, tile_);
  const std::int64_t tiles = blocks.count();
#pragma omp parallel num_threads(static_cast <int>(scratch_.size()))
  {
    const std::int64_t thread = omp_get_thread_num(), team = omp_get_num_threads();
    const auto at = static_cast<std::size_t>(thread);
    for (std::size_t t = at; first && t < scratch_.size(); t += static_cast<std::size_t>(team))
      clear(scratch_[t]);
    Scratch& scratch = scratch_[at];
    const std::int64_t lo = tiles * thread / team, hi = tiles * (thread + 1) / team;
    for (std::int64_t i = lo; i < hi; ++i) {
      Tile tile{blocks.first(i), {}};
      for (std::size_t a = 0; a < 3; ++a)
        tile.extents[a] = std::min(tile_[a], extents[a] - tile.first[a]);
      add_tile(src, tile, diff, argmax, slope, scratch);
      if ((i + 1 - lo) % kTilesAFlush == 0 || i + 1 == hi) flush(scratch);
      poll();
    }
  }
}

// Adds the sums of whole cells. Threads may take cells in any order, because their sums are exact.
template <class S, class T>
void PooledWeightGradient::add_cells(const Source<S>& src, const Spatial& extents,
                                     const Spatial& cell, const Pooled<T>& diff,
                                     const Argmax& argmax, float slope, Poll poll) {
  const Blocks cells(extents, cell), tiles(cell, tile_);
  const std::int64_t count = cells.count();
#pragma omp parallel for schedule(dynamic) num_threads(static_cast <int>(scratch_.size()))
  for (std::int64_t c = 0; c < count; ++c) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(omp_get_thread_num())];
    const Spatial origin = cells.first(c);
    for (std::int64_t i = 0; i < tiles.count(); ++i) {
      Tile tile{tiles.first(i), {}};
      for (std::size_t a = 0; a < 3; ++a) {
        tile.extents[a] = std::min(tile_[a], cell[a] - tile.first[a]);
        tile.first[a] += origin[a];
      }
      add_tile(src, tile, diff, argmax, slope, scratch);
      if ((i + 1) % kTilesAFlush == 0 || i + 1 == tiles.count()) flush(scratch);
      poll();
    }
    add_and_clear_terms(scratch.weight[1].data(), scratch.weight[1].size(),
                        scratch.weight_cells.view());
    add_and_clear_terms(scratch.bias[2].data(), scratch.bias[2].size(), scratch.bias_cells.view());
  }
}

void PooledWeightGradient::flush(Scratch& scratch) {
  add_and_clear(scratch.weight[0].span(), scratch.weight[1].span());
  add_and_clear(scratch.bias[1].span(), scratch.bias[2].span());
}

void PooledWeightGradient::clear(Scratch& scratch) {
  for (auto& sums : scratch.weight) std::fill_n(sums.data(), sums.size(), 0.0F);
  for (auto& sums : scratch.bias) std::fill_n(sums.data(), sums.size(), 0.0F);
}

// Calls body(index of the weight in the order out,in,kd,kh,kw; place of its sum).
template <class Body>
void PooledWeightGradient::for_each_weight(const Body& body) const {
  const auto [kernel_d, kernel_h, kernel_w] = geometry_.kernel;
  const std::int64_t ci = geometry_.src_channels, co = geometry_.dst_channels;
  for (std::int64_t o = 0; o < co; ++o)
    for (std::int64_t d = 0; d < kernel_d; ++d)
      for (std::int64_t h = 0; h < rows_; ++h)
        for (std::int64_t at = 0; at < run_; ++at) {
          // `at` counts (kh, when merged; kw; channel)
          const std::int64_t kh = merged_ ? at / (kernel_w * ci) : h;
          const std::int64_t to =
              (((o * ci + at % ci) * kernel_d + d) * kernel_h + kh) * kernel_w + at / ci % kernel_w;
          body(to, place_of(o, d, h, at));
        }
}

void PooledWeightGradient::store(float* diff_weight, float* diff_bias) const {
  const auto sum = [&](auto sums_of, std::int64_t at) {
    float total = 0;
    for (const Scratch& scratch : scratch_) total += sums_of(scratch).data()[at];
    return total;
  };
  for (std::int64_t o = 0; o < geometry_.dst_channels; ++o)
    diff_bias[o] = sum(
        [](const Scratch& s) -> const auto& { return s.bias[2]; }, o);
  for_each_weight([&](std::int64_t to, std::int64_t place) {
    diff_weight[to] = sum(
        [](const Scratch& s) -> const auto& { return s.weight[1]; }, place);
  });
}

void PooledWeightGradient::store_exact(const ExactView& diff_weight, const ExactView& diff_bias) {
  const auto move = [](ExactSums& from, std::int64_t at, const ExactView& to, std::int64_t index) {
    const ExactView sums = from.view();
    to.high[index] += std::exchange(sums.high[at], 0);
    to.low[index] += std::exchange(sums.low[at], 0);
  };
  for (Scratch& scratch : scratch_) {
    for (std::int64_t o = 0; o < geometry_.dst_channels; ++o)
      move(scratch.bias_cells, o, diff_bias, o);
    for_each_weight([&](std::int64_t to, std::int64_t place) {
      move(scratch.weight_cells, place, diff_weight, to);
    });
    // The padding of vectors has collected sums, too, which have no meaning.
    std::ranges::fill(scratch.weight_cells.bins(), 0.0);
  }
}

// The place of the sum for element `at` of row h of plane d of a window: group, channel, vector,
// lane.
std::int64_t PooledWeightGradient::place_of(std::int64_t channel, std::int64_t d, std::int64_t h,
                                            std::int64_t at) const {
  const auto [group_d, group_h, group_n] = group_;
  const std::int64_t n = at / kVector;
  const std::int64_t group =
      (d / group_d * (rows_ / group_h) + h / group_h) * (vectors_ / group_n) + n / group_n;
  const std::int64_t vector = (d % group_d * group_h + h % group_h) * group_n + n % group_n;
  return ((group * geometry_.dst_channels + channel) * group_d * group_h * group_n + vector) *
             kVector +
         at % kVector;
}

template void PooledWeightGradient::add(const Source<float>&, const Spatial&, const Pooled<float>&,
                                        const Argmax&, float, bool, Poll);
template void PooledWeightGradient::add(const Source<float>&, const Spatial&,
                                        const Pooled<Bfloat16>&, const Argmax&, float, bool, Poll);
template void PooledWeightGradient::add(const Source<Bfloat16>&, const Spatial&,
                                        const Pooled<float>&, const Argmax&, float, bool, Poll);
template void PooledWeightGradient::add(const Source<Bfloat16>&, const Spatial&,
                                        const Pooled<Bfloat16>&, const Argmax&, float, bool, Poll);
template void PooledWeightGradient::add_cells(const Source<float>&, const Spatial&, const Spatial&,
                                              const Pooled<float>&, const Argmax&, float, Poll);

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
