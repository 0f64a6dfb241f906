// SPDX-License-Identifier: Apache-2.0
// Transfers between parts: see transfer_plan.hpp.
#include "partition/transfer_plan.hpp"

#include <algorithm>
#include <utility>

#include "partition/box_index.hpp"

namespace halomesh {

TransferPlan::TransferPlan(std::vector<Transfer> transfers) : transfers_(std::move(transfers)) {
  if (!std::is_sorted(transfers_.begin(), transfers_.end()))
    std::sort(transfers_.begin(), transfers_.end());
}

TransferPlan TransferPlan::reversed() const {
  std::vector<Transfer> result = transfers_;
  for (Transfer& t : result) std::swap(t.src, t.dst);
  return TransferPlan(std::move(result));
}

std::int64_t TransferPlan::received_volume(std::int64_t part) const {
  std::int64_t volume = 0;
  for (const Transfer& t : transfers_)
    if (t.dst == part) volume += t.box.volume();
  return volume;
}

std::int64_t TransferPlan::sent_volume(std::int64_t part) const {
  std::int64_t volume = 0;
  for (const Transfer& t : transfers_)
    if (t.src == part) volume += t.box.volume();
  return volume;
}

TransferPlan plan_transfers(const std::vector<Box>& owned, const std::vector<Box>& needed) {
  const BoxIndex index(needed);
  // Pairs are collected first: a growing vector of transfers would touch several times its memory,
  // which takes most of the time where there are thousands of parts.
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t src = 0; src < owned.size(); ++src)
    for (const std::size_t dst : index.meeting(owned[src]))
      if (src != dst) pairs.emplace_back(src, dst);
  std::vector<Transfer> transfers;
  transfers.reserve(pairs.size());
  for (const auto& [src, dst] : pairs)
    transfers.push_back({static_cast<std::int64_t>(src), static_cast<std::int64_t>(dst),
                         intersect(owned[src], needed[dst])});
  return TransferPlan(std::move(transfers));
}

}  // namespace halomesh
