// What moves between parts: see transfer_plan.hpp.
#include "partition/transfer_plan.hpp"

#include <algorithm>
#include <utility>

namespace halomesh {

TransferPlan::TransferPlan(std::vector<Transfer> transfers) : transfers_(std::move(transfers)) {
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
  return reversed().received_volume(part);
}

TransferPlan plan_transfers(const std::vector<Box>& owned, const std::vector<Box>& needed) {
  std::vector<Transfer> transfers;
  for (std::size_t src = 0; src < owned.size(); ++src)
    for (std::size_t dst = 0; dst < needed.size(); ++dst) {
      if (src == dst) continue;
      const Box box = intersect(owned[src], needed[dst]);
      if (!box.empty())
        transfers.push_back({static_cast<std::int64_t>(src), static_cast<std::int64_t>(dst), box});
    }
  return TransferPlan(std::move(transfers));
}

}  // namespace halomesh
