// SPDX-License-Identifier: Apache-2.0
// How evenly threads share the loops of our own kernels in a fused convolution block. Pure
// arithmetic on shapes, so that any machine can compute the shares of one with more cores.
#pragma once

#include <vector>

#include "partition/window.hpp"
#include "src/nn/kernels/isa.hpp"
#include "src/nn/kernels/pooled_weight_gradient.hpp"
#include "src/nn/layer.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {

/// The loops of a block that computes `pooled` output voxels of geometry.dst_channels channels on
/// one part, in the order of a step, without the library's convolutions; gradients are those of the
/// sparse kernels where these fit. Local.
std::vector<ThreadShare> thread_shares(const PooledWeightGradient::Geometry& geometry,
                                       const Spatial& pooled, int threads);

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
