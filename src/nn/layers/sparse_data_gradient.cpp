// SPDX-License-Identifier: Apache-2.0
// The input gradient of many channels under max pooling: see sparse_data_gradient.hpp.
#include "src/nn/layers/sparse_data_gradient.hpp"

#include <omp.h>

#include <algorithm>
#include <type_traits>

#include "error.hpp"

namespace halomesh {
inline namespace HALOMESH_ISA {

using namespace sparse;

namespace {

// One pooled plane deep, so that slabs of planes meet in few voxels. Of the tiles of 8 to 64 voxels
// all that fit the cache are equally fast: storing takes the time.
constexpr Spatial kTile{1, 4, 8};
// A store of a vector takes as long as two multiply-adds.
constexpr double kStore = 2;

Range range_of(std::int64_t all, std::int64_t parts, std::int64_t part) {
  return {all * part / parts, all * (part + 1) / parts};
}

}  // namespace

bool SparseDataGradient::supports(const Geometry& geometry) { return are_kernels_for(geometry); }

Work SparseDataGradient::work_of(const Geometry& g, const Spatial& extents) {
  Spatial tile = kTile;
  for (std::size_t a = 0; a < 3; ++a) tile[a] = std::clamp<std::int64_t>(extents[a], 1, tile[a]);
  const Tiling plane{{1, extents[1], extents[2]}, tile};
  Work work;
  work.in_blocks = g.src_channels / kVector;
  work.out_blocks = ceil_to(g.dst_channels, kLanes) / kLanes;
  work.units = std::max<std::int64_t>(1, extents[0]);
  work.voxels = static_cast<double>(std::max<std::int64_t>(1, extents[1] * extents[2]));
  const std::int64_t under = plane.count() * (TileLayout(g.kernel, g.pool, tile).size / kVector);
  work.voxels_under = 2 * static_cast<double>(under);
  work.taps = static_cast<double>(volume(g.kernel));
  work.pool_taps = static_cast<double>(volume(g.pool));
  work.multiply_adds = kStore;
  return work;
}

SparseDataGradient::SparseDataGradient(const Geometry& geometry, const Spatial& extents,
                                       int threads, DataType type, std::int64_t rows,
                                       std::int64_t pixels)
    : geometry_(geometry),
      in_blocks_(geometry.src_channels / kVector),
      out_blocks_(ceil_to(geometry.dst_channels, kLanes) / kLanes),
      type_(type) {
  require(supports(geometry) && threads > 0,
          text("sparse data gradient of {} to {} channels, kernel {}x{}x{}, on {} threads",
               geometry.src_channels, geometry.dst_channels, geometry.kernel[0], geometry.kernel[1],
               geometry.kernel[2], threads),
          text("use kernels of 2x2x2 or 3x3x3 and a multiple of {} input channels", kVector));
  layout_ = TileLayout(geometry_.kernel, geometry_.pool, kTile);
  weights_ = AlignedBuffer<float>(geometry_.src_channels * geometry_.dst_channels * taps());
  // Slabs of two planes or more meet only in their first and last planes.
  const bool meets_next =
      type == DataType::kFloat32 && geometry_.kernel[0] <= geometry_.pool[0] + 1;
  split_ = best_split(work_of(geometry_, extents), threads,
                      meets_next ? std::max<std::int64_t>(1, extents[0] / 2) : 1, 1);
  if (type == DataType::kBfloat16)
    ring_ = AlignedBuffer<float>((geometry_.pool[0] + geometry_.kernel[0] - 1) * rows * pixels *
                                 geometry_.src_channels);
  for (std::int64_t p = 0; p < split_.parts(); ++p) {
    Part& part = parts_.emplace_back();
    part.tile = AlignedBuffer<float>(layout_.size);
    part.winners = AlignedBuffer<Winners>(out_blocks_ * volume(kTile));
  }
}

void SparseDataGradient::load_weights(const float* weight) {
  const std::int64_t ci = geometry_.src_channels, co = geometry_.dst_channels, n = taps();
#pragma omp parallel for schedule(static)
  for (std::int64_t o = 0; o < co; ++o)
    for (std::int64_t i = 0; i < ci; ++i)
      for (std::int64_t tap = 0; tap < n; ++tap) {
        const float value = weight[(o * ci + i) * n + tap];
        weights_.data()[((i / kVector * co + o) * n + tap) * kVector + i % kVector] =
            type_ == DataType::kBfloat16 ? static_cast<float>(Bfloat16(value)) : value;
      }
}

// Reads one vector of channels of the voxels under a tile, zeros where nothing was added before or
// outside the block, or writes them back.
template <bool kStore>
void SparseDataGradient::copy_tile(const Sums& target, const Tile& tile, std::int64_t in_block,
                                   const Unwritten& unwritten, float* copy) const {
  const Spatial under = layout_.under(tile.extents);
  Spatial at{};
  for (std::size_t a = 0; a < 3; ++a) at[a] = target.corner[a] + tile.first[a] * geometry_.pool[a];
  const std::int64_t lo = std::clamp<std::int64_t>(-at[2], 0, under[2]);
  const std::int64_t hi = std::clamp(target.extents[2] - at[2], lo, under[2]);
  for (std::int64_t d = 0; d < under[0]; ++d)
    for (std::int64_t h = 0; h < under[1]; ++h) {
      float* const row = copy + d * layout_.plane_step + h * layout_.row_step;
      const std::int64_t to_d = at[0] + d, to_h = at[1] + h;
      const bool inside =
          to_d >= 0 && to_d < target.extents[0] && to_h >= 0 && to_h < target.extents[1];
      float* const block = target.data + (inside ? to_d % target.planes : 0) * target.step[0] +
                           to_h * target.step[1] + at[2] * target.step[2] + in_block * kVector;
      if constexpr (kStore) {
        for (std::int64_t w = lo; inside && w < hi; ++w)
          sparse::store(sparse::load(row + w * kVector), block + w * target.step[2]);
      } else {
        const bool fresh = unwritten.has(d, h, unwritten.pixel);
        const std::int64_t end = !inside ? lo
                                 : fresh ? std::clamp(unwritten.pixel, lo, hi)
                                         : hi;  // of what is read
        std::fill_n(row, lo * kVector, 0.0F);
        for (std::int64_t w = lo; w < end; ++w)
          sparse::store(sparse::load(block + w * target.step[2]), row + w * kVector);
        std::fill_n(row + end * kVector, (under[2] - end) * kVector, 0.0F);
      }
    }
}

void SparseDataGradient::add_tile(Part& part, std::int64_t voxels, std::int64_t in_block) const {
  const std::int64_t row = layout_.row_step, plane = layout_.plane_step;
  float* const tile = part.tile.data();
  const std::int64_t co = geometry_.dst_channels, step = taps() * kVector;
  const float* const weights = weights_.data() + in_block * co * step;
  const bool two = geometry_.kernel[0] == 2;
  for (std::int64_t d = 0; d < (two ? 1 : 3); ++d)
    for (std::int64_t o = 0; o < co; ++o) {
      const Winners* const winners = part.winners.data() + o / kLanes * voxels;
      const auto lane = static_cast<std::size_t>(o % kLanes);
      if (two)
        add_windows<2, 2, 2>(winners, voxels, lane, weights + o * step, tile, row, plane);
      else
        add_windows<1, 3, 3>(winners, voxels, lane, weights + o * step + 9 * d * kVector,
                             tile + d * plane, row, plane);
    }
}

template <class T>
void SparseDataGradient::run_plane(const Sums& target, const Spatial& extents, std::int64_t plane,
                                   const Range& unwritten, Range in, const Pooled<T>& diff,
                                   const Argmax& argmax, float slope, Part& part) const {
  const Tiling tiling{{1, extents[1], extents[2]}, kTile};
  const std::int64_t tiles = tiling.count();
  for (std::int64_t t = 0; t < tiles; ++t) {
    Tile tile = tiling.at(t);
    tile.first[0] = plane;
    const Unwritten fresh{unwritten, tile.first[1] > 0 ? geometry_.kernel[1] - 1 : 0,
                          tile.first[2] > 0 ? geometry_.kernel[2] - 1 : 0};
    find_winners(layout_, tile, 0, out_blocks_, geometry_.dst_channels, diff, argmax, slope,
                 part.winners.data(), nullptr);
    for (std::int64_t i = in.lo; i < in.hi; ++i) {
      copy_tile<false>(target, tile, i, fresh, part.tile.data());
      add_tile(part, volume(tile.extents), i);
      copy_tile<true>(target, tile, i, fresh, part.tile.data());
    }
  }
}

// A slab's last plane reaches into the next slab's first ones. It is added when all slabs have
// done their other planes:
//
//   slab 0: planes 0 1 2 | 3      slab 1: planes 4 5 6 | 7
//           at once      | then           at once      | then
template <class T>
void SparseDataGradient::run_slabs(const Sums& target, const Spatial& extents, Range planes,
                                   const Pooled<T>& diff, const Argmax& argmax, float slope) {
  const std::int64_t slabs = std::min(split_.slabs, std::max<std::int64_t>(1, planes.extent() / 2));
  const std::int64_t parts = slabs * split_.in_groups;
  const std::int64_t deep = geometry_.pool[0] + geometry_.kernel[0] - 1;
#pragma omp parallel num_threads(static_cast <int>(parts))
  for (const bool last : {false, true}) {
#pragma omp for schedule(static, 1)
    for (std::int64_t number = 0; number < parts; ++number) {
      const std::int64_t slab = number / split_.in_groups;
      const Range in = range_of(in_blocks_, split_.in_groups, number % split_.in_groups);
      const Range mine = range_of(planes.extent(), slabs, slab);
      const std::int64_t first = planes.lo + mine.lo, end = planes.lo + mine.hi;
      for (std::int64_t p = last ? end - 1 : first; p < (last ? end : end - 1); ++p) {
        // The first slab continues what earlier planes have written.
        const bool starts = p == first && (slab > 0 || p == 0);
        const Range unwritten{starts ? 0 : geometry_.kernel[0] - 1,
                              last && slab + 1 < slabs ? geometry_.pool[0] : deep};
        run_plane(target, extents, p, unwritten, in, diff, argmax, slope,
                  parts_[static_cast<std::size_t>(number)]);
      }
    }
  }
}

// Writes the channels `in` of planes of the block that are complete.
void SparseDataGradient::round_planes(const Sums& from, Range planes, Range in,
                                      const Target<Bfloat16>& to) const {
  const std::int64_t lo = in.lo * kVector, hi = in.hi * kVector;
  for (std::int64_t d = std::max<std::int64_t>(planes.lo, 0);
       d < std::min(planes.hi, to.extents[0]); ++d)
    for (std::int64_t h = 0; h < to.extents[1]; ++h) {
      const float* sums = from.data + d % from.planes * from.step[0] + h * from.step[1];
      Bfloat16* rounded = to.data + d * to.step[0] + h * to.step[1];
      for (std::int64_t w = 0; w < to.extents[2]; ++w, sums += from.step[2], rounded += to.step[2])
        for_each_lane_block(lo, hi, [&](std::int64_t c, auto lanes) {
          store_values(load_values(sums + c, lanes), lanes, rounded + c);
        });
    }
}

template <class S, class T>
void SparseDataGradient::run(const Target<S>& target, const Spatial& extents, Range planes,
                             const Pooled<T>& diff, const Argmax& argmax, float slope) {
  if (std::min({extents[1], extents[2], planes.extent()}) <= 0) return;
  if constexpr (std::is_same_v<S, float>) {
    const Sums sums{target.data, target.extents[0], target.step, target.extents, target.corner};
    run_slabs(sums, extents, planes, diff, argmax, slope);
  } else {
    const std::int64_t pixel = geometry_.src_channels, row = target.extents[2] * pixel;
    const std::int64_t step = geometry_.pool[0], deep = step + geometry_.kernel[0] - 1;
    const Sums sums{
        ring_.data(), deep, {target.extents[1] * row, row, pixel}, target.extents, target.corner};
    const std::int64_t parts = split_.parts();
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(parts))
    for (std::int64_t part = 0; part < parts; ++part) {
      const Range in = range_of(in_blocks_, parts, part);
      for (std::int64_t p = planes.lo; p < planes.hi; ++p) {
        run_plane(sums, extents, p, {p == 0 ? 0 : deep - step, deep}, in, diff, argmax, slope,
                  parts_[static_cast<std::size_t>(part)]);
        const std::int64_t first = target.corner[0] + p * step;
        const bool last = p + 1 == extents[0];
        round_planes(sums, {first, first + (last ? deep : step)}, in, target);
      }
    }
  }
}

template void SparseDataGradient::run(const Target<float>&, const Spatial&, Range,
                                      const Pooled<float>&, const Argmax&, float);
template void SparseDataGradient::run(const Target<float>&, const Spatial&, Range,
                                      const Pooled<Bfloat16>&, const Argmax&, float);
template void SparseDataGradient::run(const Target<Bfloat16>&, const Spatial&, Range,
                                      const Pooled<float>&, const Argmax&, float);
template void SparseDataGradient::run(const Target<Bfloat16>&, const Spatial&, Range,
                                      const Pooled<Bfloat16>&, const Argmax&, float);

}  // namespace HALOMESH_ISA
}  // namespace halomesh
