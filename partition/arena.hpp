// SPDX-License-Identifier: Apache-2.0
// Places blocks of memory in one arena, in which blocks that are not needed at the same time may
// overlap. Pure arithmetic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace halomesh {

/// Events number `first` to `last` of a sequence, both included.
struct EventRange {
  std::int64_t first = 0, last = 0;
  friend bool operator==(const EventRange&, const EventRange&) = default;
};

/// A block of memory and the events during which it holds something.
struct LiveBlock {
  std::int64_t bytes = 0;
  std::vector<EventRange> live;

  /// Adds an event: extends the last range to it, or begins the first range.
  void touch(std::int64_t event);
};

/// Whether both blocks hold something during the same event.
bool live_together(const LiveBlock& a, const LiveBlock& b);

/// The beginning of each block in an arena of `bytes` bytes.
struct ArenaPlan {
  std::vector<std::int64_t> offsets;
  std::int64_t bytes = 0;
};

/// Gives blocks that are live together disjoint places, which begin on cache lines. Greedy: takes
/// the largest block first and puts each in the smallest gap that holds it. Where the arena then
/// exceeds most_live_bytes(), up to a hundred more attempts each place the previous one's highest
/// block first, and the best attempt wins. Empty blocks are at 0.
ArenaPlan place_blocks(std::span<const LiveBlock> blocks);

/// The most bytes that are live during one event: a lower bound for every plan.
std::int64_t most_live_bytes(std::span<const LiveBlock> blocks);

}  // namespace halomesh
