// SPDX-License-Identifier: Apache-2.0
// The shares of threads in loops: see thread_shares.hpp.
#include "src/nn/kernels/thread_shares.hpp"

#include <algorithm>

#include "src/nn/kernels/sparse_data_gradient.hpp"
#include "src/nn/kernels/sparse_weight_gradient.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {
namespace {

using sparse::share;
using sparse::Split;
using sparse::Work;

/// The share for units of equal cost, in blocks of consecutive ones.
ThreadShare equal_units(const char* loop, std::int64_t units, std::int64_t threads) {
  return {loop, units,
          static_cast<double>(share(units, threads) * threads) / static_cast<double>(units)};
}

/// The share for slabs of planes; a unit is one plane of one vector of input channels.
ThreadShare data_gradient(const PooledWeightGradient::Geometry& geometry, const Spatial& pooled,
                          int threads) {
  const Split split = SparseDataGradient::split_of(geometry, pooled, threads);
  const Work work = SparseDataGradient::work_of(geometry, pooled);
  const std::int64_t slabs = std::min(split.slabs, std::max<std::int64_t>(1, pooled[0] / 2));
  const std::int64_t units = pooled[0] * work.in_blocks;
  const std::int64_t most = share(pooled[0], slabs) * share(work.in_blocks, split.in_groups);
  return {"data gradient", units, static_cast<double>(most * threads) / static_cast<double>(units)};
}

/// The share for tiles; a unit is a block of output channels of one vector of input channels of a
/// tile. The costs of finding winners and copying tiles count as well.
ThreadShare weight_gradient(const PooledWeightGradient::Geometry& geometry, const Spatial& pooled,
                            int threads) {
  const Work work = SparseWeightGradient::work_of(geometry, pooled);
  const Split split = SparseWeightGradient::split_of(geometry, pooled, threads);
  return {"weight gradient", work.units * work.in_blocks * work.out_blocks,
          threads * sparse::cost_of(work, split) / sparse::cost_of(work, {})};
}

}  // namespace

std::vector<ThreadShare> thread_shares(const PooledWeightGradient::Geometry& geometry,
                                       const Spatial& pooled, int threads) {
  if (std::min({pooled[0], pooled[1], pooled[2]}) <= 0) return {};
  const bool sparse = geometry.src_channels > pooled_weight::kMaxChannels &&
                      SparseWeightGradient::supports(geometry);
  std::vector<ThreadShare> shares{
      equal_units(sparse ? "pooling" : "forward", pooled[0] * pooled[1], threads)};
  if (sparse) {
    shares.push_back(data_gradient(geometry, pooled, threads));
    shares.push_back(weight_gradient(geometry, pooled, threads));
  } else {
    shares.push_back(
        equal_units("weight gradient", PooledWeightGradient(geometry, 1).tiles(pooled), threads));
  }
  return shares;
}

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
