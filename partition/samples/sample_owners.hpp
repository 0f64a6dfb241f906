// SPDX-License-Identifier: Apache-2.0
// The replica that keeps each sample of a split in its stage, as pure functions.
#pragma once

#include <cstdint>

#include "partition/samples/sample_order.hpp"

namespace halomesh {

/// Each sample has one owner: a replica and a slot in it. Slots of a replica count from 0 in the
/// order of their samples.
class SampleOwners {
 public:
  struct Owner {
    std::int64_t replica = 0, slot = 0;
    friend bool operator==(const Owner&, const Owner&) = default;
  };

  /// Training samples live in the replicas' contiguous shards (see SampleOrder::shard_begin): with
  /// Shuffle::kLocal nothing leaves its replica.
  static SampleOwners of_training(const SampleOrder& order) { return {order, false}; }
  /// Validation samples live on the replica that takes them in each pass of
  /// SampleOrder::validation().
  static SampleOwners of_validation(const SampleOrder& order) { return {order, true}; }

  std::int64_t samples() const { return order_.samples; }
  Owner of(std::int64_t sample) const;
  std::int64_t slots(std::int64_t replica) const;
  std::int64_t sample(const Owner& owner) const;

 private:
  SampleOwners(const SampleOrder& order, bool by_use) : order_(order), by_use_(by_use) {}

  SampleOrder order_;
  bool by_use_;
};

}  // namespace halomesh
