// SPDX-License-Identifier: Apache-2.0
// The boxes of a staged sample that make up each part's block of the transformed sample. Pure
// geometry.
#pragma once

#include <vector>

#include "partition/partition.hpp"
#include "partition/samples/symmetry.hpp"
#include "partition/transfer_plan.hpp"

namespace halomesh {

/// A sample as the parts of a group keep it; vectors are indexed by part.
struct StagedSample {
  Shape shape;
  Partition owned;          ///< a partition of the sample
  std::vector<Box> blocks;  ///< the box that each part keeps and also needs: owned and halo
};

/// A tensor of this shape of which each part keeps its box of `blocks`. They are equal or disjoint,
/// as those of labels are; the first of several parts with equal blocks owns the voxels. Throws
/// Error unless they make up the tensor.
StagedSample staged_in_blocks(const Shape& shape, std::vector<Box> blocks);

/// The transfers from part `src` of the group that keeps the sample to part `dst` of the group that
/// uses it under `symmetry`: boxes of the sample, at most one for each pair of parts, whose images
/// are disjoint and make up the block blocks[dst] of the transformed sample. Where the part with
/// dst's number keeps everything that dst needs (as for a sample that is not transformed), dst
/// takes it from there; otherwise each voxel comes from the part that owns it. Unlike in
/// plan_transfers(), src and dst may be equal. Sorted. Throws Error unless the symmetry preserves
/// the shape.
TransferPlan plan_redistribution(const StagedSample& sample, const Symmetry& symmetry);

/// Crops of staged samples of which each part keeps one block: blocks equal owned.
struct CropBlocks {
  Shape shape;              ///< shape of a crop
  std::vector<Box> needed;  ///< by each part, box of a transformed crop
};

/// The transfers to part `dst` for the crop at `origin` of a sample, under a symmetry of the crop,
/// from each part that has some of it: boxes of the sample. Nothing moves for voxels beyond the
/// sample.
std::vector<Transfer> crop_transfers_to(std::int64_t dst, const StagedSample& sample,
                                        const CropBlocks& crops, const Spatial& origin,
                                        const Symmetry& symmetry);
/// All of these transfers, to any part, that come from part `src`.
std::vector<Transfer> crop_transfers_from(std::int64_t src, const StagedSample& sample,
                                          const CropBlocks& crops, const Spatial& origin,
                                          const Symmetry& symmetry);

}  // namespace halomesh
