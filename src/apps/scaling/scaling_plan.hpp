// SPDX-License-Identifier: Apache-2.0
// The meshes that a scaling study measures, on which numbers of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/mesh_shape.hpp"
#include "src/apps/options/options.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// One mesh with one batch; a case may belong to both kinds of scaling.
struct ScalingCase {
  MeshShape mesh;
  std::int64_t batch = 1;  ///< the global batch
  bool strong = false, weak = false;

  /// A name such as "8 ranks, parts 2x1x1, batch 8".
  std::string name() const;
};

struct ScalingPlan {
  std::vector<std::int64_t> ranks;    ///< ascending
  std::vector<ScalingCase> cases;     ///< by ascending ranks, then parts
  std::vector<std::string> left_out;  ///< a sentence for each mesh that is not measured, with the
                                      ///< reason
};

/// The cost of a step on a mesh of one replica, to rank grids of equally many parts: operations of
/// the part with most, and bytes that the part with most messages receives, each counted as a
/// hundred.
double cost_of_grid(const Model& model, const PartGrid& grid);

/// Throws UsageError, naming the value, for a rank count beyond `world_ranks`, or one that no mesh
/// fits with the requested batch.
ScalingPlan plan_scaling(const Options& options, const Model& model, std::int64_t world_ranks);

}  // namespace halomesh
