// SPDX-License-Identifier: Apache-2.0
// The rank, elements and round of each message of a sum over all ranks: the algorithms of
// network_cost.hpp as lists of rounds.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/cost/network_cost.hpp"

namespace halomesh {

/// Elements [lo, hi) of the buffer that go to or come from a rank.
struct SumPiece {
  int rank = 0;
  std::int64_t lo = 0, hi = 0;
  friend bool operator==(const SumPiece&, const SumPiece&) = default;
};

/// The pieces that one rank sends and receives at the same time. All may be sent before anything of
/// the round is received. They match the pieces that the other ranks receive in a round of theirs,
/// in order. A round may also send what it receives, then as equal pieces in equal order.
struct SumRound {
  std::vector<SumPiece> sends, receives;  ///< none is empty
  bool add = false;  ///< received elements are added to this rank's; otherwise they replace them
};

/// The rounds of rank `rank` (0 .. sum.place.ranks - 1) for a buffer of `count` elements; a rank
/// takes them in order, and nothing else orders the ranks. After them all ranks have the same bits:
/// each element is either summed once and copied, or by the same tree everywhere. Local; no rank's
/// rounds depend on values or times.
///
/// Reduce-scatters take the ranks as digits: of P = 2 x 2 x q ranks two rounds halve the buffer
/// with partners at distances 1 and 2, then groups of q ranks go on as in J. L. Traeff, "Optimal,
/// non-pipelined reduce-scatter and allreduce algorithms" (arXiv 2410.14234), which takes ceil(log2
/// q) rounds for any q. All-gathers are the same rounds backwards.
///
/// Beyond first_level() each `rotation` (modulo 3) begins with another third of the digits, and
/// each of the `sum.parts` parts of the buffer takes the next rotation in the same rounds.
/// Rotations use different links of a torus: for 16 ranks in a square of 4 x 4, in parts A and B,
///
///   distance in round    1   2   3   4      partner of rank 0
///   A (rotation 0)       1   2   4   8      1 and 2 in its row, then 4 and 8 in its column
///   B (rotation 1)       4   8   1   2      first the column, then the row
std::vector<SumRound> sum_schedule(const SumChoice& sum, int rank, std::int64_t count,
                                   int rotation = 0);

}  // namespace halomesh
