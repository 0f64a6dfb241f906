// SPDX-License-Identifier: Apache-2.0
// The replica that keeps each sample: see sample_owners.hpp.
#include "partition/samples/sample_owners.hpp"

#include <algorithm>

#include "error.hpp"

namespace halomesh {

SampleOwners::Owner SampleOwners::of(std::int64_t sample) const {
  require(sample >= 0 && sample < order_.samples,
          text("sample {} of {} has no owner", sample, order_.samples));
  if (by_use_) {
    const std::int64_t step = sample / order_.global_batch(),
                       place = sample % order_.global_batch();
    return {place / order_.local_batch, step * order_.local_batch + place % order_.local_batch};
  }
  const std::int64_t size = order_.samples / order_.replicas,
                     larger = order_.samples % order_.replicas;
  const std::int64_t replica =
      sample < larger * (size + 1) ? sample / (size + 1) : (sample - larger) / size;
  return {replica, sample - order_.shard_begin(replica)};
}

std::int64_t SampleOwners::slots(std::int64_t replica) const {
  if (!by_use_) return order_.shard_begin(replica + 1) - order_.shard_begin(replica);
  const std::int64_t local = order_.local_batch, batch = order_.global_batch();
  const std::int64_t rest = order_.samples % batch - replica * local;
  return order_.samples / batch * local + std::clamp<std::int64_t>(rest, 0, local);
}

std::int64_t SampleOwners::sample(const Owner& owner) const {
  const std::int64_t local = order_.local_batch;
  if (!by_use_) return order_.shard_begin(owner.replica) + owner.slot;
  return owner.slot / local * order_.global_batch() + owner.replica * local + owner.slot % local;
}

}  // namespace halomesh
