// SPDX-License-Identifier: Apache-2.0
// The samples that each replica takes at each step of an epoch, and their symmetries, as pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "partition/samples/symmetry.hpp"

namespace halomesh {

/// A random permutation of 0..n-1 that depends on (seed, epoch, stream) only. Fisher-Yates from the
/// back (Knuth, TAOCP 2, 3.4.2, algorithm P): the draw for place i, among i+1, is a 64-bit number
/// of CounterRng(seed, kOrder, epoch, stream) at index i, reduced modulo i+1. Numbers below 2^64
/// mod (i+1) would favour small remainders: they are rejected, and the draw is repeated at index i
/// + attempt * 2^40. `stream` < 2^24 and n <= 2^40.
std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch, std::int64_t n,
                                      std::int64_t stream = 0);

enum class Shuffle {
  kGlobal,  // an epoch permutes all samples: a function of seed and epoch
  kLocal    // each replica permutes a fixed shard: a function of the number of replicas, too
};

/// One use of a sample.
struct SampleUse {
  std::int64_t sample = 0;
  Symmetry symmetry{};
  /// The first voxel of the crop that is taken before the transformation, where the extents of
  /// samples differ from those wanted; none: the crop in the sample's middle.
  std::optional<Spatial> origin{};
};

/// The samples that all replicas take in some consecutive steps.
struct BatchSchedule {
  std::int64_t steps = 0, replicas = 1, local_batch = 1;
  /// Place i of replica r in step s is at (s * replicas + r) * local_batch + i. The samples may end
  /// within the last step.
  std::vector<SampleUse> uses;

  /// The samples that `replica` takes in `step`: local_batch samples, fewer or none at the end.
  std::span<const SampleUse> taken(std::int64_t step, std::int64_t replica) const;
};

/// The use of a split's samples by `replicas` replicas that each take `local_batch` samples per
/// step.
struct SampleOrder {
  Shuffle shuffle = Shuffle::kGlobal;
  std::uint64_t seed = 0;
  std::int64_t samples = 0, replicas = 1, local_batch = 1;

  std::int64_t global_batch() const { return replicas * local_batch; }

  /// Full global batches in an epoch; with kLocal, full local batches in the smallest shard.
  std::int64_t training_steps() const;
  /// The samples that an epoch of training leaves out because they do not fill a global batch; they
  /// differ from epoch to epoch.
  std::int64_t dropped_samples() const { return samples - training_steps() * global_batch(); }
  /// The steps of `epoch` from first_step on. Each replica takes local_batch samples per step,
  /// transformed as `draw` says (null: not transformed). With kGlobal and global batch B, position
  /// b = replica * local_batch + i of step s holds epoch_order(seed, epoch, samples)[s * B + b]:
  /// the samples of a step do not depend on how the batch is cut. With kLocal, step s holds the
  /// places s * local_batch + i of epoch_order(seed, epoch, shard, 1 + replica), within the
  /// replica's shard.
  BatchSchedule training(std::int64_t epoch, std::int64_t first_step = 0,
                         const SymmetryDraw* draw = nullptr) const;
  /// The first sample of a replica's shard, from which it takes samples with kLocal;
  /// shard_begin(replicas) == samples. Shards are contiguous, and the first samples % replicas of
  /// them are larger by one.
  std::int64_t shard_begin(std::int64_t replica) const;

  /// Steps of one pass over the split in its own order, equal on every replica; in the last one
  /// replicas may have fewer samples than local_batch, or none.
  std::int64_t validation_steps() const;
  /// The validation_steps() steps of such a pass: sample s * B + b at position b of step s, as long
  /// as there are samples. Every sample belongs to exactly one replica and step.
  BatchSchedule validation() const;
};

}  // namespace halomesh
