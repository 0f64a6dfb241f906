// SPDX-License-Identifier: Apache-2.0
// What one pass of a layer on one part is in a table of kernel times.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "partition/cost/kernel_table.hpp"
#include "src/nn/data_type.hpp"
#include "src/nn/layer.hpp"

namespace halomesh {

/// The pass of `layer` on a part with these boxes, for `batch` samples and `threads` threads.
/// Extents of src are those of the first input; flops are the part's share of forward_flops() (the
/// same for each pass); bytes are those of src, dst and, once each, the parameters that it uses.
/// `src_types`: one per input. An empty kernel where the part computes nothing or the pass costs
/// nothing measurable.
KernelCase kernel_case(const Layer& layer, KernelPass pass, std::span<const Shape> src_shapes,
                       const LayerBoxes& boxes, std::span<const DataType> src_types,
                       std::int64_t batch, int threads);

}  // namespace halomesh
