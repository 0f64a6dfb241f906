// SPDX-License-Identifier: Apache-2.0
// The messages between parts that carry out a plan.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/transfer_plan.hpp"

namespace halomesh {

/// The boxes that one part sends to another along a plan, in its order.
struct PartMessage {
  std::int64_t src = 0, dst = 0;
  std::vector<Box> boxes;

  /// Elements of one sample.
  std::int64_t volume() const;
};

/// The messages of a plan: one for each pair of parts, by src and dst.
std::vector<PartMessage> messages_of(const TransferPlan& plan);

/// The transfers of a plan from and to `part`.
TransferPlan plan_of_part(const TransferPlan& plan, std::int64_t part);

}  // namespace halomesh
