// SPDX-License-Identifier: Apache-2.0
// The order of chunks: see overlap.hpp.
#include "partition/overlap.hpp"

#include <algorithm>

namespace halomesh {
namespace {

// The limits of the chunks of a block without local planes: more chunks would mean more messages
// and smaller kernels.
constexpr std::int64_t kMaxSlabs = 4, kMinSlabPlanes = 2;

std::vector<Chunk> remote_slabs(const Box& dst) {
  const std::int64_t planes = dst.extent(kD);
  const std::int64_t slabs = std::clamp<std::int64_t>(planes / kMinSlabPlanes, 1, kMaxSlabs);
  std::vector<Chunk> chunks;
  for (std::int64_t s = 0; s < slabs; ++s)
    chunks.push_back(
        {with_d_range(dst, dst.lo[kD] + s * planes / slabs, dst.lo[kD] + (s + 1) * planes / slabs),
         true});
  return chunks;
}

}  // namespace

std::vector<Chunk> order_chunks(const Box& dst, const std::function<bool(const Box&)>& is_local) {
  if (dst.empty()) return {};
  std::int64_t lo = dst.lo[kD];
  const std::int64_t end = dst.hi[kD];
  const auto plane_is_local = [&](std::int64_t d) { return is_local(with_d_range(dst, d, d + 1)); };
  while (lo < end && !plane_is_local(lo)) ++lo;
  std::int64_t hi = lo;
  while (hi < end && plane_is_local(hi)) ++hi;
  if (lo == hi) return remote_slabs(dst);
  std::vector<Chunk> chunks{{with_d_range(dst, lo, hi), false}};
  if (dst.lo[kD] < lo) chunks.push_back({with_d_range(dst, dst.lo[kD], lo), true});
  if (hi < end) chunks.push_back({with_d_range(dst, hi, end), true});
  return chunks;
}

std::vector<Chunk> order_chunks(const LayerGeometry& layer, const LayerBoxes& boxes,
                                std::span<const Shape> src) {
  return order_chunks(boxes.dst_produced, [&](const Box& chunk) {
    for (std::size_t i = 0; i < src.size(); ++i)
      if (!boxes.src_local[i].contains(needed_by(layer, boxes, src, chunk, i))) return false;
    return true;
  });
}

std::vector<TransferPlan> split_into_rounds(const TransferPlan& plan,
                                            const std::vector<std::vector<Box>>& needed) {
  std::size_t rounds = 1;
  for (const auto& boxes : needed) rounds = std::max(rounds, boxes.size());
  std::vector<std::vector<Transfer>> transfers(rounds);
  for (const Transfer& t : plan.transfers()) {
    std::vector<Box> rest{t.box};
    const auto& wanted = needed[static_cast<std::size_t>(t.dst)];
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      const std::int64_t lo = wanted[k].lo[kD], hi = wanted[k].hi[kD];
      std::vector<Box> later;
      for (const Box& box : rest) {
        const auto keep = [](std::vector<Box>& boxes, const Box& b) {
          if (!b.empty()) boxes.push_back(b);
        };
        const std::int64_t from = std::max(lo, box.lo[kD]), to = std::min(hi, box.hi[kD]);
        if (from >= to) {
          later.push_back(box);
          continue;
        }
        transfers[k].push_back({t.src, t.dst, with_d_range(box, from, to)});
        keep(later, with_d_range(box, box.lo[kD], from));
        keep(later, with_d_range(box, to, box.hi[kD]));
      }
      rest = std::move(later);
    }
    for (const Box& box : rest) transfers[0].push_back({t.src, t.dst, box});
  }
  std::vector<TransferPlan> plans;
  plans.reserve(rounds);
  for (auto& round : transfers) plans.emplace_back(std::move(round));
  return plans;
}

std::vector<TransferPlan> split_into_rounds(const TransferPlan& plan, const LayerGeometry& layer,
                                            const LayerPlacement& placement, std::size_t input) {
  std::vector<std::vector<Box>> needed;
  for (const LayerBoxes& boxes : placement.boxes) {
    needed.emplace_back();
    for (const Chunk& chunk : order_chunks(layer, boxes, placement.src_shapes))
      if (chunk.needs_remote)
        needed.back().push_back(needed_by(layer, boxes, placement.src_shapes, chunk.dst, input));
  }
  return split_into_rounds(plan, needed);
}

std::vector<std::size_t> chunks_before_sends(const std::vector<TransferPlan>& rounds,
                                             const std::vector<Chunk>& chunks, std::int64_t part) {
  std::vector<std::size_t> before;
  for (const TransferPlan& round : rounds) {
    std::size_t computed = 0;
    for (const Transfer& t : round.transfers())
      for (std::size_t k = computed; t.src == part && k < chunks.size(); ++k)
        if (!intersect(t.box, chunks[k].dst).empty()) computed = k + 1;
    before.push_back(computed);
  }
  return before;
}

}  // namespace halomesh
