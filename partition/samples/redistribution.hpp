// SPDX-License-Identifier: Apache-2.0
// Which pieces of a kept sample make up each part's block of the transformed sample.
// Pure geometry: knows nothing of where blocks are kept, of files or of messages.
#pragma once

#include <vector>

#include "partition/partition.hpp"
#include "partition/samples/symmetry.hpp"
#include "partition/transfer_plan.hpp"

namespace halomesh {

/// How a sample is kept by the parts of a group; vectors are indexed by part.
struct StagedSample {
  Shape shape;
  Partition owned;          ///< a partition of the sample
  std::vector<Box> blocks;  ///< what each part keeps and, in turn, needs: owned and halo
};

/// What part `src` of the group that keeps the sample gives to part `dst` of the group that uses
/// it under `symmetry`: boxes of the sample, at most one for each pair of parts, whose images are
/// disjoint and make up the block kept[dst] of the transformed sample. A part that keeps all that
/// it needs (as it does of a sample that is not transformed) takes it from its like; otherwise each
/// voxel comes from the part that owns it. Other than in plan_transfers(), src and dst may be
/// equal. Sorted. Throws Error unless the symmetry keeps the shape.
TransferPlan plan_redistribution(const StagedSample& sample, const Symmetry& symmetry);

}  // namespace halomesh
