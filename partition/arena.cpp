// SPDX-License-Identifier: Apache-2.0
// Places of blocks in an arena: see arena.hpp.
#include "partition/arena.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace halomesh {
namespace {

constexpr std::int64_t kLine = 64;

std::int64_t whole_lines(std::int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

/// The occupied range [begin, end).
struct Taken {
  std::int64_t begin, end;
};

/// The beginning of the smallest gap of at least `bytes`; the end of all ranges if there is none.
std::int64_t best_gap(std::vector<Taken> taken, std::int64_t bytes) {
  std::sort(taken.begin(), taken.end(),
            [](const Taken& a, const Taken& b) { return a.begin < b.begin; });
  std::int64_t end = 0, best = -1, best_size = std::numeric_limits<std::int64_t>::max();
  for (const Taken& t : taken) {
    if (const std::int64_t size = t.begin - end; size >= bytes && size < best_size) {
      best = end;
      best_size = size;
    }
    end = std::max(end, t.end);
  }
  return best < 0 ? end : best;
}

}  // namespace

void LiveBlock::touch(std::int64_t event) {
  if (live.empty()) live.push_back({event, event});
  live.back().last = std::max(live.back().last, event);
}

bool live_together(const LiveBlock& a, const LiveBlock& b) {
  return std::any_of(a.live.begin(), a.live.end(), [&](const EventRange& x) {
    return std::any_of(b.live.begin(), b.live.end(),
                       [&](const EventRange& y) { return x.first <= y.last && y.first <= x.last; });
  });
}

namespace {

/// Places the blocks in this order, each in the smallest gap between those already placed.
ArenaPlan place_in_order(std::span<const LiveBlock> blocks, std::span<const std::size_t> order) {
  ArenaPlan plan{std::vector<std::int64_t>(blocks.size(), 0), 0};
  std::vector<std::size_t> placed;
  for (const std::size_t i : order) {
    const std::int64_t bytes = whole_lines(blocks[i].bytes);
    if (bytes == 0) continue;
    std::vector<Taken> taken;
    for (const std::size_t other : placed)
      if (live_together(blocks[i], blocks[other]))
        taken.push_back(
            {plan.offsets[other], plan.offsets[other] + whole_lines(blocks[other].bytes)});
    plan.offsets[i] = best_gap(std::move(taken), bytes);
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + bytes);
    placed.push_back(i);
  }
  return plan;
}

}  // namespace

ArenaPlan place_blocks(std::span<const LiveBlock> blocks) {
  constexpr int kMostTries = 100;
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  const std::int64_t least = most_live_bytes(blocks);
  ArenaPlan best = place_in_order(blocks, order), plan = best;
  for (int tries = 1; tries < kMostTries && best.bytes > least; ++tries) {
    const auto highest = std::find_if(order.begin(), order.end(), [&](std::size_t i) {
      return plan.offsets[i] + whole_lines(blocks[i].bytes) == plan.bytes;
    });
    std::rotate(order.begin(), highest, highest + 1);
    plan = place_in_order(blocks, order);
    if (plan.bytes < best.bytes) best = plan;
  }
  return best;
}

std::int64_t most_live_bytes(std::span<const LiveBlock> blocks) {
  std::int64_t most = 0;
  for (const LiveBlock& begin : blocks)
    for (const EventRange& range : begin.live) {  // the maximum is reached where a block begins
      const LiveBlock now{0, {{range.first, range.first}}};
      std::int64_t bytes = 0;
      for (const LiveBlock& block : blocks)
        if (live_together(block, now)) bytes += whole_lines(block.bytes);
      most = std::max(most, bytes);
    }
  return most;
}

}  // namespace halomesh
