// SPDX-License-Identifier: Apache-2.0
// What moves between parts: see transfer_plan.hpp.
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
  std::vector<Transfer> transfers;
  for (std::size_t src = 0; src < owned.size(); ++src)
    for (const std::size_t dst : index.meeting(owned[src]))
      if (src != dst)
        transfers.push_back({static_cast<std::int64_t>(src), static_cast<std::int64_t>(dst),
                             intersect(owned[src], needed[dst])});
  return TransferPlan(std::move(transfers));
}

}  // namespace halomesh
