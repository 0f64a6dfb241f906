// SPDX-License-Identifier: Apache-2.0
// The weight gradient of many channels under max pooling: see sparse_weight_gradient.hpp.
#include "src/nn/kernels/sparse_weight_gradient.hpp"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "error.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {

using namespace sparse;

namespace {

// The source under a tile (25 and 38 KiB with vectors of 16) stays in the first-level cache, or
// nearly: measured best of the tiles of 8 to 64 voxels. Smaller ones copy more source per voxel and
// pass over the sums more often.
constexpr Spatial kTile{2, 4, 4};
// The share of a second-level cache for the winners of the tiles that are prepared together.
constexpr std::int64_t kWinnerBytes = 256 << 10;

template <class T>
Vector vector_of(const T* from) {
  if constexpr (std::is_same_v<T, float>) {
    return sparse::load(from);
  } else {
    Vector v;
    for (std::int64_t i = 0; i < kVector; ++i) v[i] = static_cast<float>(from[i]);
    return v;
  }
}

}  // namespace

bool SparseWeightGradient::supports(const Geometry& geometry) { return are_kernels_for(geometry); }

Work SparseWeightGradient::work_of(const Geometry& g, const Spatial& extents) {
  Spatial tile = kTile;
  for (std::size_t a = 0; a < 3; ++a) tile[a] = std::clamp<std::int64_t>(extents[a], 1, tile[a]);
  Work work;
  work.in_blocks = g.src_channels / kVector;
  work.out_blocks = ceil_to(g.dst_channels, kLanes) / kLanes;
  work.units = std::max<std::int64_t>(1, Tiling{extents, tile}.count());
  work.voxels = static_cast<double>(volume(tile));
  work.voxels_under = static_cast<double>(TileLayout(g.kernel, g.pool, tile).size) / kVector;
  work.taps = static_cast<double>(volume(g.kernel));
  work.pool_taps = static_cast<double>(volume(g.pool));
  return work;
}

// The split of the work over threads. Each further slab has sums of its own, at most 512 KiB per
// thread.
Split SparseWeightGradient::split_of(const Geometry& g, const Spatial& extents, int threads) {
  constexpr std::int64_t kMoreSums = 1 << 17;
  const std::int64_t weights = g.src_channels * g.dst_channels * volume(g.kernel);
  const Work work = work_of(g, extents);
  return best_split(work, threads, 1 + kMoreSums * threads / weights, work.out_blocks);
}

SparseWeightGradient::SparseWeightGradient(const Geometry& geometry, const Spatial& extents,
                                           int threads)
    : geometry_(geometry),
      in_blocks_(geometry.src_channels / kVector),
      out_blocks_(ceil_to(geometry.dst_channels, kLanes) / kLanes) {
  require(supports(geometry) && threads > 0,
          text("sparse weight gradient of {} to {} channels, kernel {}x{}x{}, on {} threads",
               geometry.src_channels, geometry.dst_channels, geometry.kernel[0], geometry.kernel[1],
               geometry.kernel[2], threads),
          text("use kernels of 2x2x2 or 3x3x3 and a multiple of {} input channels", kVector));
  split_ = split_of(geometry_, extents, threads);
  allocate(share(Tiling{extents, kTile}.count(), split_.slabs));
}

// Prepares for exact sums, for which threads share whole cells.
SparseWeightGradient::SparseWeightGradient(const Geometry& geometry, const Spatial& extents,
                                           int threads, const Spatial& cell)
    : SparseWeightGradient(geometry, cell, threads) {
  constexpr std::int64_t kMoreSums = 1 << 17;
  cell_ = cell;
  Work work = work_of(geometry, cell);
  const auto tiles = static_cast<double>(work.units);
  work.voxels *= tiles;
  work.voxels_under *= tiles;
  work.units = std::max<std::int64_t>(1, Tiling{extents, cell}.count());
  const std::int64_t weights = geometry.src_channels * geometry.dst_channels * taps();
  split_ = best_split(work, threads, 1 + kMoreSums * threads / weights, work.out_blocks);
  allocate(Tiling{cell, kTile}.count());
  for (std::int64_t s = 0; s < split_.slabs; ++s) cells_.emplace_back(weights);
  for (Part& part : parts_) part.bias_cells = ExactSums(out_blocks_ * kLanes);
}

// `tiles` is the number in a slab, or in a cell.
void SparseWeightGradient::allocate(std::int64_t tiles) {
  layout_ = TileLayout(geometry_.kernel, geometry_.pool, kTile);
  sums_.clear();
  parts_.clear();
  const std::int64_t weights = geometry_.src_channels * geometry_.dst_channels * taps();
  for (std::int64_t s = 0; s < split_.slabs; ++s) sums_.emplace_back(weights);
  const std::int64_t out = share(out_blocks_, split_.out_groups);
  const std::int64_t tile_bytes = out * volume(kTile) * std::int64_t{sizeof(Winners)};
  tiles_at_once_ =
      std::clamp<std::int64_t>(kWinnerBytes / tile_bytes, 1, std::max<std::int64_t>(1, tiles));
  for (std::int64_t p = 0; p < split_.parts(); ++p) {
    Part& part = parts_.emplace_back();
    part.tile = AlignedBuffer<float>(layout_.size);
    part.bias = AlignedBuffer<float>(out_blocks_ * kLanes);
    part.bias_sum = AlignedBuffer<double>(out_blocks_ * kLanes);
    part.winners = AlignedBuffer<Winners>(tiles_at_once_ * out * volume(kTile));
  }
}

// Copies one vector of channels of the source under a tile, with zeros where it leaves the block.
template <class S>
void SparseWeightGradient::copy_tile(const Source<S>& src, const Tile& tile, std::int64_t in_block,
                                     float* to) const {
  const Spatial under = layout_.under(tile.extents);
  const std::int64_t ci = geometry_.src_channels;
  Spatial at{};
  for (std::size_t a = 0; a < 3; ++a) at[a] = src.corner[a] + tile.first[a] * geometry_.pool[a];
  const auto [depth, height, width] = src.extents;
  const std::int64_t lo = std::clamp<std::int64_t>(-at[2], 0, under[2]);
  for (std::int64_t d = 0; d < under[0]; ++d)
    for (std::int64_t h = 0; h < under[1]; ++h) {
      float* const row = to + d * layout_.plane_step + h * layout_.row_step;
      const std::int64_t src_d = at[0] + d, src_h = at[1] + h;
      const bool inside = src_d >= 0 && src_d < depth && src_h >= 0 && src_h < height;
      const std::int64_t hi = inside ? std::clamp(width - at[2], lo, under[2]) : lo;
      std::fill_n(row, lo * kVector, 0.0F);
      if (lo < hi) {
        const S* from =
            src.data + ((src_d * height + src_h) * width + at[2] + lo) * ci + in_block * kVector;
        for (std::int64_t w = lo; w < hi; ++w, from += ci)
          sparse::store(vector_of(from), row + w * kVector);
      }
      std::fill_n(row + hi * kVector, (under[2] - hi) * kVector, 0.0F);
    }
}

// Adds one tile's sums for the output channels `out` to `sums`, which begin with the first of them.
void SparseWeightGradient::sum_tile(const Winners* first, std::int64_t voxels, const Range& out,
                                    const float* tile, float* sums) const {
  const std::int64_t row = layout_.row_step, plane = layout_.plane_step;
  const bool two = geometry_.kernel[0] == 2;
  for (std::int64_t o = out.lo; o < out.hi; ++o) {
    const Winners* const winners = first + (o - out.lo) / kLanes * voxels;
    const auto lane = static_cast<std::size_t>((o - out.lo) % kLanes);
    float* const to = sums + o * taps() * kVector;
    if (two) {
      sum_windows<2, 2, 2>(winners, voxels, lane, tile, row, plane, to);
      continue;
    }
    for (std::int64_t d = 0; d < 3; ++d)
      sum_windows<1, 3, 3>(winners, voxels, lane, tile + d * plane, row, plane,
                           to + 9 * d * kVector);
  }
}

SparseWeightGradient::Share SparseWeightGradient::share_of(std::int64_t part) const {
  const std::int64_t in_group = part % split_.in_groups;
  const Range blocks =
      range_of(out_blocks_, split_.out_groups, part / split_.in_groups % split_.out_groups);
  return {part / (split_.in_groups * split_.out_groups),
          in_group == 0,
          range_of(in_blocks_, split_.in_groups, in_group),
          blocks,
          {blocks.lo * kLanes, std::min(blocks.hi * kLanes, geometry_.dst_channels)}};
}

// Adds at most tiles_at_once_ tiles of a box.
template <class S, class T>
void SparseWeightGradient::add_tiles(const Source<S>& src, const TiledBox& box, const Range& tiles,
                                     const PooledDiff<T>& diff, const Share& share, Part& part,
                                     Poll& poll) {
  const auto [slab, has_bias, in, blocks, out] = share;
  float* const sums = sums_[static_cast<std::size_t>(slab)].data();
  const std::int64_t tile_winners = (blocks.hi - blocks.lo) * volume(kTile);
  for (std::int64_t t = tiles.lo; t < tiles.hi; ++t)
    find_winners(layout_, box.at(t), blocks, geometry_.dst_channels, diff,
                 part.winners.data() + (t - tiles.lo) * tile_winners,
                 has_bias ? part.bias.data() : nullptr);
  for (std::int64_t i = in.lo; i < in.hi; ++i)
    for (std::int64_t t = tiles.lo; t < tiles.hi; ++t) {
      const Tile tile = box.at(t);
      copy_tile(src, tile, i, part.tile.data());
      sum_tile(part.winners.data() + (t - tiles.lo) * tile_winners, volume(tile.extents), out,
               part.tile.data(), sums + place_of(i, 0));
      poll();
    }
}

template <class S, class T>
void SparseWeightGradient::add_part(const Source<S>& src, const Tiling& tiling,
                                    const PooledDiff<T>& diff, bool first, std::int64_t number,
                                    Poll& poll) {
  Part& part = parts_[static_cast<std::size_t>(number)];
  const Share share = share_of(number);
  const Range& out = share.out;
  if (first) {
    float* const sums = sums_[static_cast<std::size_t>(share.slab)].data();
    for (std::int64_t i = share.in.lo; i < share.in.hi; ++i)
      std::fill(sums + place_of(i, out.lo), sums + place_of(i, out.hi), 0.0F);
    std::fill_n(part.bias_sum.data(), part.bias_sum.size(), 0.0);
  }
  const Range tiles = range_of(tiling.count(), split_.slabs, share.slab);
  for (std::int64_t lo = tiles.lo; lo < tiles.hi; lo += tiles_at_once_) {
    add_tiles(src, TiledBox{tiling}, {lo, std::min(lo + tiles_at_once_, tiles.hi)}, diff, share,
              part, poll);
    for (std::int64_t c = out.lo; share.has_bias && c < out.hi; ++c) {
      part.bias_sum.data()[c] += static_cast<double>(part.bias.data()[c]);
      part.bias.data()[c] = 0;
    }
  }
}

template <class S, class T>
void SparseWeightGradient::add_cells(const Source<S>& src, const Spatial& extents,
                                     const Pooled<T>& diff, const Argmax& argmax, float slope,
                                     Poll poll) {
  const Tiling cells{extents, cell_}, tiles{cell_, kTile};
  const std::int64_t parts = split_.parts(), count = cells.count(), tile_count = tiles.count();
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(parts))
  for (std::int64_t number = 0; number < parts; ++number) {
    Part& part = parts_[static_cast<std::size_t>(number)];
    const Share share = share_of(number);
    const Range& out = share.out;
    const Range mine = range_of(count, split_.slabs, share.slab);
    float* const sums = sums_[static_cast<std::size_t>(share.slab)].data();
    const ExactView cell_sums = cells_[static_cast<std::size_t>(share.slab)].view();
    for (std::int64_t c = mine.lo; c < mine.hi; ++c) {
      const Spatial origin = cells.at(c).first;
      for (std::int64_t lo = 0; lo < tile_count; lo += tiles_at_once_)
        add_tiles(src, TiledBox{tiles, origin}, {lo, std::min(lo + tiles_at_once_, tile_count)},
                  PooledDiff<T>{diff, argmax, slope}, share, part, poll);
      for (std::int64_t i = share.in.lo; i < share.in.hi; ++i) {
        const std::int64_t lo = place_of(i, out.lo), hi = place_of(i, out.hi);
        add_and_clear_terms(sums + lo, hi - lo, cell_sums.from(lo));
      }
      if (share.has_bias)
        add_and_clear_terms(part.bias.data() + out.lo, out.hi - out.lo,
                            part.bias_cells.view().from(out.lo));
      poll();
    }
  }
}

void SparseWeightGradient::store_exact(const ExactView& diff_weight, const ExactView& diff_bias) {
  const std::int64_t ci = geometry_.src_channels, co = geometry_.dst_channels, n = taps();
  for (Part& part : parts_)
    for (std::int64_t o = 0; o < co; ++o) {
      const ExactView bias = part.bias_cells.view();
      diff_bias.high[o] += std::exchange(bias.high[o], 0);
      diff_bias.low[o] += std::exchange(bias.low[o], 0);
    }
  for (ExactSums& cells : cells_) {
    const ExactView sums = cells.view();
#pragma omp parallel for schedule(static)
    for (std::int64_t o = 0; o < co; ++o)
      for (std::int64_t block = 0; block < in_blocks_; ++block)
        for (std::int64_t tap = 0; tap < n; ++tap) {
          const std::int64_t from = place_of(block, o) + tap * kVector;
          for (std::int64_t lane = 0; lane < kVector; ++lane) {
            const std::int64_t to = (o * ci + block * kVector + lane) * n + tap;
            diff_weight.high[to] += std::exchange(sums.high[from + lane], 0);
            diff_weight.low[to] += std::exchange(sums.low[from + lane], 0);
          }
        }
  }
}

template <class S, class T>
void SparseWeightGradient::add(const Source<S>& src, const Spatial& extents, const Pooled<T>& diff,
                               const Argmax& argmax, float slope, bool first, Poll poll) {
  const Tiling tiling{extents, kTile};
  const std::int64_t parts = split_.parts();
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(parts))
  for (std::int64_t part = 0; part < parts; ++part)
    add_part(src, tiling, PooledDiff<T>{diff, argmax, slope}, first, part, poll);
}

void SparseWeightGradient::store(float* diff_weight, float* diff_bias) const {
  const std::int64_t ci = geometry_.src_channels, co = geometry_.dst_channels, n = taps();
#pragma omp parallel for schedule(static)
  for (std::int64_t o = 0; o < co; ++o) {
    double bias = 0;
    for (const Part& part : parts_) bias += part.bias_sum.data()[o];
    diff_bias[o] = static_cast<float>(bias);
    for (std::int64_t i = 0; i < ci; ++i)
      for (std::int64_t tap = 0; tap < n; ++tap) {
        const std::int64_t from = place_of(i / kVector, o) + tap * kVector + i % kVector;
        float sum = sums_[0].data()[from];
        for (std::size_t s = 1; s < sums_.size(); ++s) sum += sums_[s].data()[from];
        diff_weight[(o * ci + i) * n + tap] = sum;
      }
  }
}

template void SparseWeightGradient::add(const Source<float>&, const Spatial&, const Pooled<float>&,
                                        const Argmax&, float, bool, Poll);
template void SparseWeightGradient::add(const Source<float>&, const Spatial&,
                                        const Pooled<Bfloat16>&, const Argmax&, float, bool, Poll);
template void SparseWeightGradient::add(const Source<Bfloat16>&, const Spatial&,
                                        const Pooled<float>&, const Argmax&, float, bool, Poll);
template void SparseWeightGradient::add(const Source<Bfloat16>&, const Spatial&,
                                        const Pooled<Bfloat16>&, const Argmax&, float, bool, Poll);
template void SparseWeightGradient::add_cells(const Source<float>&, const Spatial&,
                                              const Pooled<float>&, const Argmax&, float, Poll);

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
