// Epoch permutations and their cutting into steps and replicas.
// Knows nothing of files, of ranks within a replica or of what a sample is.
#include "partition/sample_order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "rng.hpp"

namespace halomesh {
namespace {

/// Uniform in [0, bound), without bias; see epoch_order().
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
          cat("an order of ", n, " samples in stream ", stream, " is out of range"));
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const CounterRng rng(seed, RandomUse::kOrder, narrow<std::uint32_t>(epoch),
                       narrow<std::uint32_t>(stream));
  for (std::size_t i = order.size(); i-- > 1;)
    std::swap(order[i], order[static_cast<std::size_t>(bounded(rng, i, i + 1))]);
  return order;
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

std::vector<std::int64_t> SampleOrder::training_samples(std::int64_t epoch, std::int64_t replica,
                                                        std::int64_t first_step) const {
  require(replica >= 0 && replica < replicas, cat("replica ", replica, " of ", replicas));
  const bool global = shuffle == Shuffle::kGlobal;
  const std::int64_t shard = global ? 0 : shard_begin(replica);
  const std::vector<std::int64_t> order =
      global ? epoch_order(seed, epoch, samples)
             : epoch_order(seed, epoch, shard_begin(replica + 1) - shard, 1 + replica);
  const std::int64_t stride = global ? global_batch() : local_batch;
  const std::int64_t first = global ? replica * local_batch : 0;
  std::vector<std::int64_t> taken;
  for (std::int64_t s = first_step; s < training_steps(); ++s)
    for (std::int64_t i = 0; i < local_batch; ++i)
      taken.push_back(shard + order[static_cast<std::size_t>(s * stride + first + i)]);
  return taken;
}

std::vector<std::int64_t> SampleOrder::validation_samples(std::int64_t replica) const {
  require(replica >= 0 && replica < replicas, cat("replica ", replica, " of ", replicas));
  std::vector<std::int64_t> taken;
  for (std::int64_t s = 0; s < validation_steps(); ++s) {
    const std::int64_t begin = s * global_batch() + replica * local_batch;
    for (std::int64_t i = begin; i < std::min(begin + local_batch, samples); ++i)
      taken.push_back(i);
  }
  return taken;
}

}  // namespace halomesh
