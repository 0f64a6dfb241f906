// SPDX-License-Identifier: Apache-2.0
// Epoch permutations, cut into steps and replicas.
#include "partition/samples/sample_order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "rng.hpp"

namespace halomesh {
namespace {

/// A uniform number in [0, bound), without bias; see epoch_order().
std::uint64_t bounded(const CounterRng& rng, std::uint64_t index, std::uint64_t bound) {
  const std::uint64_t biased = (0 - bound) % bound;  // 2^64 mod bound
  for (std::uint64_t attempt = 0;; ++attempt) {
    const auto words = rng.block(index + (attempt << 40));
    const std::uint64_t draw = (std::uint64_t{words[0]} << 32) | words[1];
    if (draw >= biased) return draw % bound;
  }
}

}  // namespace

std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch, std::int64_t n,
                                      std::int64_t stream) {
  require(n >= 0 && n <= std::int64_t{1} << 40 && stream >= 0 && stream < std::int64_t{1} << 24,
          text("an order of {} samples in stream {} is out of range", n, stream));
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const CounterRng rng(seed, RandomUse::kOrder, narrow<std::uint32_t>(epoch),
                       narrow<std::uint32_t>(stream));
  for (std::size_t i = order.size(); i-- > 1;)
    std::swap(order[i], order[static_cast<std::size_t>(bounded(rng, i, i + 1))]);
  return order;
}

std::span<const SampleUse> BatchSchedule::taken(std::int64_t step, std::int64_t replica) const {
  require(step >= 0 && step < steps && replica >= 0 && replica < replicas,
          text("step {} of {}, replica {} of {}", step, steps, replica, replicas));
  const auto all = static_cast<std::int64_t>(uses.size());
  const std::int64_t begin = std::min((step * replicas + replica) * local_batch, all);
  const std::int64_t count = std::min(local_batch, all - begin);
  return std::span(uses).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
}

std::int64_t SampleOrder::shard_begin(std::int64_t replica) const {
  return replica * (samples / replicas) + std::min(replica, samples % replicas);
}

std::int64_t SampleOrder::training_steps() const {
  return shuffle == Shuffle::kGlobal ? samples / global_batch() : samples / replicas / local_batch;
}

std::int64_t SampleOrder::validation_steps() const {
  return (samples + global_batch() - 1) / global_batch();
}

BatchSchedule SampleOrder::training(std::int64_t epoch, std::int64_t first_step,
                                    const SymmetryDraw* draw) const {
  BatchSchedule schedule{
      std::max<std::int64_t>(0, training_steps() - first_step), replicas, local_batch, {}};
  schedule.uses.resize(static_cast<std::size_t>(schedule.steps * global_batch()));
  const bool global = shuffle == Shuffle::kGlobal;
  // With kGlobal all replicas together take one shard.
  const std::int64_t shards = global ? 1 : replicas, stride = global_batch() / shards;
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    const std::int64_t begin = global ? 0 : shard_begin(shard);
    const std::vector<std::int64_t> order =
        global ? epoch_order(seed, epoch, samples)
               : epoch_order(seed, epoch, shard_begin(shard + 1) - begin, 1 + shard);
    for (std::int64_t s = 0; s < schedule.steps; ++s)
      for (std::int64_t i = 0; i < stride; ++i) {
        SampleUse& use = schedule.uses[static_cast<std::size_t>((s * shards + shard) * stride + i)];
        use.sample = begin + order[static_cast<std::size_t>((first_step + s) * stride + i)];
        if (draw != nullptr) use.symmetry = (*draw)(epoch, use.sample);
      }
  }
  return schedule;
}

BatchSchedule SampleOrder::validation() const {
  BatchSchedule schedule{validation_steps(), replicas, local_batch, {}};
  schedule.uses.resize(static_cast<std::size_t>(samples));
  for (std::size_t i = 0; i < schedule.uses.size(); ++i)
    schedule.uses[i].sample = static_cast<std::int64_t>(i);
  return schedule;
}

}  // namespace halomesh
