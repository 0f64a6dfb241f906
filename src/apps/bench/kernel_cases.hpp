// SPDX-License-Identifier: Apache-2.0
// The kernels that the parts run on all meshes of some numbers of parts: each distinct case once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/cost/kernel_table.hpp"
#include "partition/mesh_shape.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// The passes of one layer on one part, if no other case equals them.
struct LayerCase {
  PartGrid parts;
  std::size_t layer = 0;
  std::int64_t part = 0;
  /// Forward, then the backward passes for data and for parameters that training needs.
  std::vector<KernelCase> passes;
  double meshes = 0;        ///< the number of meshes with such a part
  double flops = 0;         ///< the operations of all passes
  std::int64_t memory = 0;  ///< bytes of the tensors of a measurement
};

/// All grids of at most `most_parts` parts, by ascending number of parts.
std::vector<PartGrid> part_grids(std::int64_t most_parts);

/// The distinct cases of `model` on all `grids`, for `batch` samples on each part. Cases that cost
/// little for the number of meshes they serve come first: if time is short, the last cases are left
/// out.
std::vector<LayerCase> layer_cases(const Model& model, const std::vector<PartGrid>& grids,
                                   std::int64_t batch, int threads);

/// The total seconds of the kernels of a training step of `batch` samples on one undivided part; 0
/// if `table` lacks a kind of kernel.
double kernels_of_step(const Model& model, const KernelTable& table, std::int64_t batch,
                       int threads);

}  // namespace halomesh
