// SPDX-License-Identifier: Apache-2.0
// The sources of each part's block in a staged sample: see redistribution.hpp.
#include "partition/samples/redistribution.hpp"

#include <algorithm>
#include <utility>

#include "error.hpp"
#include "partition/samples/sliding_windows.hpp"

namespace halomesh {

StagedSample staged_in_blocks(const Shape& shape, std::vector<Box> blocks) {
  StagedSample sample{shape, {}, std::move(blocks)};
  std::int64_t volume = 0;
  for (const Box& block : sample.blocks) {
    const auto is_this = [&](const Box& owned) { return owned == block; };
    const bool known = std::any_of(sample.owned.begin(), sample.owned.end(), is_this);
    require(known || std::none_of(sample.owned.begin(), sample.owned.end(),
                                  [&](const Box& o) { return !intersect(o, block).empty(); }),
            text("block {} overlaps another one", block));
    sample.owned.push_back(known ? Box{} : block);
    volume += sample.owned.back().volume();
  }
  require(volume == shape.volume(),
          text("the parts' blocks have {} of the {} voxels of {}", volume, shape.volume(), shape));
  return sample;
}

TransferPlan plan_redistribution(const StagedSample& sample, const Symmetry& symmetry) {
  require(symmetry.keeps(sample.shape),
          text("the symmetry maps shape {} to {}", sample.shape, symmetry.mapped(sample.shape)));
  std::vector<Transfer> transfers;
  for (std::size_t dst = 0; dst < sample.blocks.size(); ++dst) {
    const Box source = symmetry.source_of(sample.blocks[dst], sample.shape);
    if (source.empty()) continue;
    const auto part = static_cast<std::int64_t>(dst);
    if (sample.blocks[dst].contains(source)) {
      transfers.push_back({part, part, source});
      continue;
    }
    for (std::size_t src = 0; src < sample.owned.size(); ++src)
      if (const Box piece = intersect(sample.owned[src], source); !piece.empty())
        transfers.push_back({static_cast<std::int64_t>(src), part, piece});
  }
  return TransferPlan(std::move(transfers));
}

namespace {

/// The box of the sample that a part needs of a crop.
Box source_of(std::int64_t part, const StagedSample& sample, const CropBlocks& crops,
              const Spatial& origin, const Symmetry& symmetry) {
  const Box& needed = crops.needed[static_cast<std::size_t>(part)];
  if (needed.empty()) return {};
  return intersect(shifted(symmetry.source_of(needed, crops.shape), origin),
                   Box::whole(sample.shape));
}

void append(std::int64_t src, std::int64_t dst, const StagedSample& sample, const Box& source,
            std::vector<Transfer>& transfers) {
  const Box piece = intersect(sample.owned[static_cast<std::size_t>(src)], source);
  if (!piece.empty()) transfers.push_back({src, dst, piece});
}

}  // namespace

std::vector<Transfer> crop_transfers_to(std::int64_t dst, const StagedSample& sample,
                                        const CropBlocks& crops, const Spatial& origin,
                                        const Symmetry& symmetry) {
  std::vector<Transfer> transfers;
  const Box source = source_of(dst, sample, crops, origin, symmetry);
  for (std::int64_t src = 0; src < std::ssize(sample.owned); ++src)
    append(src, dst, sample, source, transfers);
  return transfers;
}

std::vector<Transfer> crop_transfers_from(std::int64_t src, const StagedSample& sample,
                                          const CropBlocks& crops, const Spatial& origin,
                                          const Symmetry& symmetry) {
  std::vector<Transfer> transfers;
  for (std::int64_t dst = 0; dst < std::ssize(crops.needed); ++dst)
    append(src, dst, sample, source_of(dst, sample, crops, origin, symmetry), transfers);
  return transfers;
}

}  // namespace halomesh
