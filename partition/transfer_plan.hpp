// SPDX-License-Identifier: Apache-2.0
// The transfers between parts: one kind of plan for halos, redistributions, gathers and reductions.
// Every rank derives it alone, from boxes only; an executor copies (or adds) along it.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "box.hpp"

namespace halomesh {

/// The elements of `box` (global coordinates) go from part `src` to part `dst`.
struct Transfer {
  std::int64_t src = 0, dst = 0;
  Box box;
  friend auto operator<=>(const Transfer&, const Transfer&) = default;
};

/// The sorted transfers of one tensor. Forward copies along the plan; backward adds along
/// reversed(), which is the exact adjoint of the copy.
class TransferPlan {
 public:
  TransferPlan() = default;
  explicit TransferPlan(std::vector<Transfer> transfers);

  const std::vector<Transfer>& transfers() const { return transfers_; }
  bool empty() const { return transfers_.empty(); }
  /// The plan with src and dst of each box exchanged.
  TransferPlan reversed() const;
  /// Elements that arrive at / leave `part` (one sample).
  std::int64_t received_volume(std::int64_t part) const;
  std::int64_t sent_volume(std::int64_t part) const;

 private:
  std::vector<Transfer> transfers_;
};

/// The transfers that give each part its needed box: needed[dst] ∩ owned[src] for every pair of
/// different parts. Both lists are indexed by part; owned boxes are disjoint. Elements that a part
/// owns itself are not in the plan: they are already in place.
TransferPlan plan_transfers(const std::vector<Box>& owned, const std::vector<Box>& needed);

}  // namespace halomesh
