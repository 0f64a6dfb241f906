// Which replica keeps which sample: see sample_homes.hpp.
#include "partition/sample_homes.hpp"

#include <algorithm>

#include "error.hpp"

namespace halomesh {

SampleHomes::Home SampleHomes::of(std::int64_t sample) const {
  require(sample >= 0 && sample < order_.samples,
          cat("sample ", sample, " of ", order_.samples, " has no home"));
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

std::int64_t SampleHomes::slots(std::int64_t replica) const {
  if (!by_use_) return order_.shard_begin(replica + 1) - order_.shard_begin(replica);
  const std::int64_t local = order_.local_batch, batch = order_.global_batch();
  const std::int64_t rest = order_.samples % batch - replica * local;
  return order_.samples / batch * local + std::clamp<std::int64_t>(rest, 0, local);
}

std::int64_t SampleHomes::sample(const Home& home) const {
  const std::int64_t local = order_.local_batch;
  if (!by_use_) return order_.shard_begin(home.replica) + home.slot;
  return home.slot / local * order_.global_batch() + home.replica * local + home.slot % local;
}

}  // namespace halomesh
