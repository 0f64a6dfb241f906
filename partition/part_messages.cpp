// SPDX-License-Identifier: Apache-2.0
// Messages between parts: see part_messages.hpp.
#include "partition/part_messages.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace halomesh {

std::int64_t PartMessage::volume() const {
  std::int64_t volume = 0;
  for (const Box& box : boxes) volume += box.volume();
  return volume;
}

std::vector<PartMessage> messages_of(const TransferPlan& plan) {
  std::vector<PartMessage> messages;
  for (const Transfer& t : plan.transfers()) {
    if (messages.empty() || messages.back().src != t.src || messages.back().dst != t.dst)
      messages.push_back({t.src, t.dst, {}});
    messages.back().boxes.push_back(t.box);
  }
  return messages;
}

TransferPlan plan_of_part(const TransferPlan& plan, std::int64_t part) {
  std::vector<Transfer> transfers;
  std::copy_if(plan.transfers().begin(), plan.transfers().end(), std::back_inserter(transfers),
               [part](const Transfer& t) { return t.src == part || t.dst == part; });
  return TransferPlan(std::move(transfers));
}

}  // namespace halomesh
