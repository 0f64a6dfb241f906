// SPDX-License-Identifier: Apache-2.0
// Places blocks of memory that are not all needed at the same time in one arena. Pure arithmetic.
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

  /// Adds an event: the last range is extended to it, or is this event where there is none.
  void touch(std::int64_t event);
};

/// Whether both blocks hold something during the same event.
bool live_together(const LiveBlock& a, const LiveBlock& b);

/// Where each block begins in an arena of `bytes` bytes.
struct ArenaPlan {
  std::vector<std::int64_t> offsets;
  std::int64_t bytes = 0;
};

/// Gives blocks that are live together disjoint places, which begin on cache lines. Greedy: the
/// largest block first, each in the smallest gap between those placed before that holds it; where
/// that takes more than most_live_bytes(), up to a hundred times again with the highest block
/// placed first, and the best of these. Empty blocks are at 0.
ArenaPlan place_blocks(std::span<const LiveBlock> blocks);

/// The most bytes that are live during one event: what no plan can do without.
std::int64_t most_live_bytes(std::span<const LiveBlock> blocks);

}  // namespace halomesh
