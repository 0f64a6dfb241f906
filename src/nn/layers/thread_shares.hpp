// SPDX-License-Identifier: Apache-2.0
// How evenly threads share the loops of our own kernels in a fused convolution block. Pure
// arithmetic on shapes: what a machine with more cores would do can be computed on any other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/window.hpp"
#include "src/nn/layers/pooled_weight_gradient.hpp"

namespace halomesh {

/// The units of work of one loop, and those of the busiest thread relative to the mean: the loop
/// takes `busiest` times as long as if all threads had the same work.
struct ThreadShare {
  std::string loop;
  std::int64_t units = 0;
  double busiest = 1;
};

/// The loops of a block that computes `pooled` output voxels of geometry.dst_channels channels on
/// one part, in the order of a step; gradients are those of the sparse kernels where there are any.
/// The library's convolutions are not among them. Local.
std::vector<ThreadShare> thread_shares(const PooledWeightGradient::Geometry& geometry,
                                       const Spatial& pooled, int threads);

}  // namespace halomesh
