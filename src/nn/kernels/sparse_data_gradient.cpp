// SPDX-License-Identifier: Apache-2.0
// The input gradient of many channels under max pooling: see sparse_data_gradient.hpp.
#include "src/nn/kernels/sparse_data_gradient.hpp"

#include <omp.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "error.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {

using namespace sparse;

namespace {

// The tile is one pooled plane deep, so that slabs of planes meet in few voxels. All tiles of 8 to
// 64 voxels that fit the cache are equally fast, because storing takes most of the time.
constexpr Spatial kSourceTile{1, 4, 8};
// The cost of storing a vector, in multiply-adds.
constexpr double kStore = 2;

}  // namespace

bool SparseDataGradient::supports(const Geometry& geometry) { return are_kernels_for(geometry); }

Work SparseDataGradient::work_of(const Geometry& g, const Spatial& extents) {
  Spatial tile = kSourceTile;
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

// Slabs must have two planes or more, so that they meet only in their first and last planes.
Split SparseDataGradient::split_of(const Geometry& geometry, const Spatial& extents, int threads) {
  const bool meets_next = geometry.kernel[0] <= geometry.pool[0] + 1;
  return best_split(work_of(geometry, extents), threads,
                    meets_next ? std::max<std::int64_t>(1, extents[0] / 2) : 1, 1);
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
  windows_ = {TileLayout(geometry_.kernel, geometry_.pool, kSourceTile),
              geometry_.kernel,
              geometry_.pool,
              {}};
  weights_ = AlignedBuffer<float>(geometry_.src_channels * geometry_.dst_channels * taps());
  split_ = split_of(geometry_, extents, threads);
  for (std::int64_t slab = 0; type == DataType::kBfloat16 && slab < split_.slabs; ++slab)
    edges_.emplace_back(windows_, kSourceTile, rows, pixels, geometry_.src_channels, slab == 0);
  for (std::int64_t p = 0; p < std::max<std::int64_t>(split_.parts(), threads); ++p) {
    Part& part = parts_.emplace_back();
    part.tile = AlignedBuffer<float>(windows_.layout.size);
    part.winners = AlignedBuffer<Winners>(out_blocks_ * volume(kSourceTile));
  }
}

void SparseDataGradient::load_weights(const float* weight) {
  const std::int64_t ci = geometry_.src_channels, co = geometry_.dst_channels, n = taps();
  const auto pack = [&](const auto& rounded) {
#pragma omp parallel for schedule(static)
    for (std::int64_t o = 0; o < co; ++o)
      for (std::int64_t i = 0; i < ci; i += kVector) {
        const float* const from = weight + (o * ci + i) * n;
        float* const to = weights_.data() + (i / kVector * co + o) * n * kVector;
        for (std::int64_t tap = 0; tap < n; ++tap)
          for (std::int64_t lane = 0; lane < kVector; ++lane)
            to[tap * kVector + lane] = rounded(from[lane * n + tap]);
      }
  };
  if (type_ == DataType::kBfloat16)
    pack([](float value) { return static_cast<float>(Bfloat16(value)); });
  else
    pack([](float value) { return value; });
}

void SparseDataGradient::add_tile(Part& part, std::int64_t voxels, std::int64_t in_block) const {
  const std::int64_t row = windows_.layout.row_step, plane = windows_.layout.plane_step;
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

// Computes plane `plane` of the pooled voxels, of which `tiling` has one.
template <class Sums, class T>
void SparseDataGradient::run_plane(const Sums& sums, const Tiling& tiling, std::int64_t plane,
                                   Range in, const PooledDiff<T>& diff, Part& part,
                                   Poll& poll) const {
  const std::int64_t tiles = tiling.count();
  for (std::int64_t t = 0; t < tiles; ++t) {
    Tile tile = tiling.at(t);
    tile.first[0] = plane;
    find_winners(windows_.layout, tile, {0, out_blocks_}, geometry_.dst_channels, diff,
                 part.winners.data(), nullptr);
    for (std::int64_t i = in.lo; i < in.hi; ++i) {
      sums.load(tile, i * kVector, part.tile.data());
      add_tile(part, volume(tile.extents), i);
      sums.store(tile, i * kVector, part.tile.data());
      poll();
    }
  }
}

// The sums of a plane of a slab. The first slab continues the sums of earlier planes.
SumsInPlace SparseDataGradient::sums_of(const Target<float>& target, const PlaneOfSlab& at) {
  const bool starts = at.is_first && (at.slab > 0 || at.plane == 0);
  const bool meets = at.is_last && at.slab + 1 < at.slabs;
  return {windows_,
          target,
          {starts ? 0 : geometry_.kernel[0] - 1,
           meets ? geometry_.pool[0] : geometry_.pool[0] + geometry_.kernel[0] - 1}};
}

RoundedSums SparseDataGradient::sums_of(const Target<Bfloat16>& target, const PlaneOfSlab& at) {
  Edges& edges = edges_[static_cast<std::size_t>(at.slab)];
  const bool meets = at.is_last && at.slab + 1 < at.slabs;
  PlaneEdges planes;
  if (!at.is_first || (at.slab == 0 && at.plane > 0)) planes.before = edges.plane.data();
  if (at.is_first && at.slab > 0) planes.head = edges.head.data();
  planes.after =
      meets ? edges_[static_cast<std::size_t>(at.slab) + 1].head.data() : edges.plane.data();
  planes.after_holds = meets;
  planes.after_is_done = meets || at.plane + 1 == at.planes;
  return {windows_, target, geometry_.src_channels, planes, edges};
}

// A slab's last plane reaches into the next slab's first ones. It is added when all slabs have
// done their other planes:
//
//   slab 0: planes 0 1 2 | 3      slab 1: planes 4 5 6 | 7
//           at once      | then           at once      | then
template <class S, class T>
void SparseDataGradient::run(const Target<S>& target, const Spatial& extents, Range planes,
                             const Pooled<T>& diff, const Argmax& argmax, float slope, Poll poll) {
  if (std::min({extents[1], extents[2], planes.extent()}) <= 0) return;
  const std::int64_t slabs = std::min(split_.slabs, std::max<std::int64_t>(1, planes.extent() / 2));
  const std::int64_t parts = slabs * split_.in_groups;
  const Tiling tiling{{1, extents[1], extents[2]}, kSourceTile};
  windows_.pooled = extents;
#pragma omp parallel num_threads(static_cast <int>(parts))
  for (const bool last : {false, true}) {
#pragma omp for schedule(static, 1)
    for (std::int64_t number = 0; number < parts; ++number) {
      const std::int64_t slab = number / split_.in_groups;
      const Range in = range_of(in_blocks_, split_.in_groups, number % split_.in_groups);
      const Range mine = range_of(planes.extent(), slabs, slab);
      const std::int64_t first = planes.lo + mine.lo, end = planes.lo + mine.hi;
      for (std::int64_t p = last ? end - 1 : first; p < (last ? end : end - 1); ++p)
        run_plane(sums_of(target, {slab, slabs, p, extents[0], p == first, p + 1 == end}), tiling,
                  p, in, PooledDiff<T>{diff, argmax, slope},
                  parts_[static_cast<std::size_t>(number)], poll);
    }
  }
  // The next planes continue in slab 0.
  if constexpr (!std::is_same_v<S, float>)
    if (slabs > 1)
      std::swap(edges_.front().plane, edges_[static_cast<std::size_t>(slabs) - 1].plane);
}

// Windows of every second plane do not meet: the even planes of the whole tensor are computed at
// once, then the odd ones. Within a plane, tiles lie where those of the whole tensor do.
void SparseDataGradient::run_in_order(const Target<float>& target, const Spatial& extents,
                                      const Spatial& first, const Pooled<float>& diff,
                                      const Argmax& argmax, float slope, Poll poll) {
  if (std::min({extents[0], extents[1], extents[2]}) <= 0) return;
  const std::int64_t reach = geometry_.pool[0] + geometry_.kernel[0] - 1;
  const std::int64_t meets = geometry_.kernel[0] - 1, alone = geometry_.pool[0];
  const std::int64_t threads = std::ssize(parts_);
  const Spatial phase{0, first[1] % kSourceTile[1], first[2] % kSourceTile[2]};
  const Tiling tiling{{1, extents[1], extents[2]}, kSourceTile, phase};
  windows_.pooled = extents;
#pragma omp parallel num_threads(static_cast <int>(threads))
  for (const std::int64_t parity : {0, 1}) {
    const std::int64_t begin = first[0] % 2 == parity ? 0 : 1;
    const std::int64_t planes = (extents[0] - begin + 1) / 2;
    const std::int64_t groups =
        std::clamp<std::int64_t>((4 * threads + planes) / (planes + 1), 1, in_blocks_);
#pragma omp for schedule(dynamic)
    for (std::int64_t number = 0; number < planes * groups; ++number) {
      const std::int64_t p = begin + number / groups * 2;
      const Range unwritten{parity == 1 && p > 0 ? meets : 0,
                            parity == 1 && p + 1 < extents[0] ? alone : reach};
      run_plane(SumsInPlace{windows_, target, unwritten}, tiling, p,
                range_of(in_blocks_, groups, number % groups),
                PooledDiff<float>{diff, argmax, slope},
                parts_[static_cast<std::size_t>(omp_get_thread_num())], poll);
    }
  }
}

template void SparseDataGradient::run(const Target<float>&, const Spatial&, Range,
                                      const Pooled<float>&, const Argmax&, float, Poll);
template void SparseDataGradient::run(const Target<float>&, const Spatial&, Range,
                                      const Pooled<Bfloat16>&, const Argmax&, float, Poll);
template void SparseDataGradient::run(const Target<Bfloat16>&, const Spatial&, Range,
                                      const Pooled<float>&, const Argmax&, float, Poll);
template void SparseDataGradient::run(const Target<Bfloat16>&, const Spatial&, Range,
                                      const Pooled<Bfloat16>&, const Argmax&, float, Poll);

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
