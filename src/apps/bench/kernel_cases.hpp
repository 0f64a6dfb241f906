// SPDX-License-Identifier: Apache-2.0
// Which kernels the parts of all meshes of some parts run: each case once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/cost/kernel_table.hpp"
#include "partition/mesh_shape.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// The passes of one layer on one part that differ from those of all others.
struct LayerCase {
  PartGrid parts;
  std::size_t layer = 0;
  std::int64_t part = 0;
  /// Forward, then what training computes of backward with respect to data and to parameters.
  std::vector<KernelCase> passes;
  double meshes = 0;        ///< how many have such a part
  double flops = 0;         ///< of all passes
  std::int64_t memory = 0;  ///< bytes of the tensors that a measurement needs
};

/// All grids of at most `most_parts` parts, by ascending number of parts.
std::vector<PartGrid> part_grids(std::int64_t most_parts);

/// The distinct cases of `model` on all `grids`, for `batch` samples on each part. Cases that cost
/// little for the number of meshes they serve come first: where time is short, those at the end are
/// left out.
std::vector<LayerCase> layer_cases(const Model& model, const std::vector<PartGrid>& grids,
                                   std::int64_t batch, int threads);

/// Seconds that the kernels of a training step of `batch` samples on one undivided part add up to;
/// 0 where `table` has none of the kind of one of them.
double kernels_of_step(const Model& model, const KernelTable& table, std::int64_t batch,
                       int threads);

}  // namespace halomesh
