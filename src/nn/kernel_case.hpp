// SPDX-License-Identifier: Apache-2.0
// The key of one pass of a layer on one part in a table of kernel times.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "partition/cost/kernel_table.hpp"
#include "src/nn/data_type.hpp"
#include "src/nn/layer.hpp"

namespace halomesh {

/// The pass of `layer` on a part with these boxes, for `batch` samples and `threads` threads. src
/// has the extents of the first input; flops are the part's share of forward_flops(), for each
/// pass; bytes count src, dst and, once each, the parameters that the pass uses. `src_types` has
/// one entry per input. The kernel is empty where the part computes nothing or the pass costs
/// nothing measurable.
KernelCase kernel_case(const Layer& layer, KernelPass pass, std::span<const Shape> src_shapes,
                       const LayerBoxes& boxes, std::span<const DataType> src_types,
                       std::int64_t batch, int threads);

}  // namespace halomesh
