// SPDX-License-Identifier: Apache-2.0
// Orders against literal tables and their properties for many sizes and meshes.
#include "partition/samples/sample_order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "error.hpp"
#include "partition/samples/passes.hpp"

namespace halomesh {
namespace {

using Order = std::vector<std::int64_t>;

bool is_permutation_of(Order order, std::int64_t n) {
  Order all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  std::sort(order.begin(), order.end());
  return order == all;
}

/// All samples that a replica takes, in order.
Order all_taken(const BatchSchedule& schedule, std::int64_t replica) {
  Order samples;
  for (std::int64_t step = 0; step < schedule.steps; ++step)
    for (const SampleUse& use : schedule.taken(step, replica)) samples.push_back(use.sample);
  return samples;
}

TEST_CASE("sample_order: literal orders, made by a separate program from the documented rule") {
  CHECK(epoch_order(1, 0, 8) == Order{5, 4, 6, 0, 2, 1, 3, 7});
  CHECK(epoch_order(1, 1, 8) == Order{4, 6, 2, 7, 5, 0, 1, 3});
  CHECK(epoch_order(2, 0, 8) == Order{0, 7, 5, 2, 1, 3, 4, 6});
  CHECK(epoch_order(1, 0, 8, 3) == Order{5, 3, 1, 4, 0, 6, 2, 7});
  CHECK(epoch_order(12345678901, 7, 5) == Order{3, 1, 0, 4, 2});
  CHECK(epoch_order(1, 0, 0).empty());
  CHECK(epoch_order(1, 0, 1) == Order{0});
}

TEST_CASE("sample_order: every order is a permutation, and places are taken uniformly") {
  for (const std::int64_t n : {2, 3, 10, 1000}) CHECK(is_permutation_of(epoch_order(3, 5, n), n));
  // 7 samples in 7 places over 7000 epochs: each cell expects 1000. The statistic has (7-1)^2 = 36
  // degrees of freedom: mean 36, deviation sqrt(72) = 8.5; 36 + 5 deviations is 78.
  constexpr std::int64_t kSamples = 7, kEpochs = 7000;
  std::vector<double> hits(kSamples * kSamples);
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Order order = epoch_order(11, epoch, kSamples);
    for (std::size_t i = 0; i < order.size(); ++i)
      ++hits[i * kSamples + static_cast<std::size_t>(order[i])];
  }
  double chi_square = 0;
  for (const double hit : hits) chi_square += (hit - 1000) * (hit - 1000) / 1000;
  CHECK(chi_square < 78);
  CHECK(chi_square > 5);
}

TEST_CASE("sample_order: training by hand") {
  // Order 5 4 6 0 2 1 3 7; replicas 2, local batch 2, so steps {5 4 | 6 0}, {2 1 | 3 7}.
  const SampleOrder global{Shuffle::kGlobal, 1, 8, 2, 2};
  CHECK(all_taken(global.training(0), 0) == Order{5, 4, 2, 1});
  CHECK(all_taken(global.training(0), 1) == Order{6, 0, 3, 7});
  CHECK(all_taken(global.training(0, 1), 1) == Order{3, 7});
  CHECK(all_taken(global.training(0, 2), 1).empty());
  const SampleOrder ragged{Shuffle::kGlobal, 1, 8, 3, 1};
  CHECK(ragged.training_steps() == 2);
  CHECK(ragged.dropped_samples() == 2);
  CHECK(all_taken(ragged.training(0), 2) == Order{6, 1});
  // Shards 0..3, 4..6, 7..9 of 10 samples.
  const SampleOrder local{Shuffle::kLocal, 1, 10, 3, 1};
  CHECK(local.shard_begin(0) == 0);
  CHECK(local.shard_begin(1) == 4);
  CHECK(local.shard_begin(2) == 7);
  CHECK(local.shard_begin(3) == 10);
  CHECK(local.training_steps() == 3);
  CHECK(local.dropped_samples() == 1);
}

TEST_CASE("sample_order: validation by hand") {
  const SampleOrder order{Shuffle::kGlobal, 1, 9, 2, 2};
  CHECK(order.validation_steps() == 3);
  CHECK(all_taken(order.validation(), 0) == Order{0, 1, 4, 5, 8});
  CHECK(all_taken(order.validation(), 1) == Order{2, 3, 6, 7});
  CHECK(SampleOrder{Shuffle::kGlobal, 1, 0, 2, 2}.validation_steps() == 0);
}

TEST_CASE("sample_order: each sample once; a step's samples do not depend on the cut") {
  std::int64_t compared = 0;
  for (const Shuffle shuffle : {Shuffle::kGlobal, Shuffle::kLocal})
    for (const std::int64_t samples : {0, 1, 5, 12, 37})
      for (const std::int64_t replicas : {1, 2, 3, 4, 6, 12})
        for (const std::int64_t local_batch : {1, 2, 5}) {
          const SampleOrder order{shuffle, 9, samples, replicas, local_batch};
          const std::int64_t steps = order.training_steps(), batch = order.global_batch();
          std::set<std::int64_t> trained;
          Order validated;
          for (std::int64_t r = 0; r < replicas; ++r) {
            const Order taken = all_taken(order.training(4), r);
            CHECK(static_cast<std::int64_t>(taken.size()) == steps * local_batch);
            trained.insert(taken.begin(), taken.end());
            if (shuffle == Shuffle::kLocal)
              for (const std::int64_t sample : taken)
                CHECK((sample >= order.shard_begin(r) && sample < order.shard_begin(r + 1)));
            const Order part = all_taken(order.validation(), r);
            CHECK(static_cast<std::int64_t>(part.size()) <= order.validation_steps() * local_batch);
            validated.insert(validated.end(), part.begin(), part.end());
            for (std::size_t i = 0; shuffle == Shuffle::kGlobal && i < taken.size(); ++i) {
              const auto s = static_cast<std::int64_t>(i) / local_batch;
              const auto b = r * local_batch + static_cast<std::int64_t>(i) % local_batch;
              const SampleOrder one{shuffle, 9, samples, 1, batch};
              CHECK(taken[i] ==
                    all_taken(one.training(4), 0)[static_cast<std::size_t>(s * batch + b)]);
              ++compared;
            }
          }
          CHECK(static_cast<std::int64_t>(trained.size()) == steps * batch);
          CHECK(order.dropped_samples() == samples - steps * batch);
          CHECK(order.dropped_samples() >= 0);
          if (shuffle == Shuffle::kGlobal) CHECK(order.dropped_samples() < batch);
          CHECK(is_permutation_of(validated, samples));
        }
  CHECK(compared > 500);
}

TEST_CASE("sample_order: samples are transformed by their own draw, for any mesh and start") {
  const SymmetryDraw draw(9, {4, 8, 8, 8});
  std::int64_t compared = 0, transformed = 0;
  for (const Shuffle shuffle : {Shuffle::kGlobal, Shuffle::kLocal}) {
    const SampleOrder order{shuffle, 9, 25, 3, 2};
    const BatchSchedule schedule = order.training(5, 1, &draw);
    CHECK(schedule.steps == order.training_steps() - 1);
    for (const SampleUse& use : schedule.uses) {
      CHECK(use.symmetry == draw(5, use.sample));
      transformed += use.symmetry.is_identity() ? 0 : 1;
      ++compared;
    }
    for (const SampleUse& use : order.training(5).uses) CHECK(use.symmetry.is_identity());
  }
  CHECK(compared == 36);
  CHECK(transformed > 24);
  const BatchSchedule schedule = SampleOrder{Shuffle::kGlobal, 1, 5, 2, 2}.validation();
  CHECK(schedule.taken(1, 0).size() == 1);
  CHECK(schedule.taken(1, 1).empty());
  CHECK_THROWS_AS(schedule.taken(2, 0), Error);
  CHECK_THROWS_AS(schedule.taken(0, 2), Error);
}

TEST_CASE("sample_order: passes of a step share out its samples, replica by replica") {
  const BatchSchedule steps = SampleOrder{Shuffle::kGlobal, 5, 26, 2, 6}.training(3);
  const BatchSchedule passes = in_passes(steps, 3);
  CHECK(passes.steps == 6);
  CHECK(passes.local_batch == 2);
  CHECK(passes.replicas == 2);
  std::int64_t compared = 0;
  for (std::int64_t step = 0; step < steps.steps; ++step)
    for (std::int64_t replica = 0; replica < 2; ++replica)
      for (std::int64_t place = 0; place < 6; ++place, ++compared)
        CHECK(passes.taken(3 * step + place / 2, replica)[static_cast<std::size_t>(place % 2)]
                  .sample == steps.taken(step, replica)[static_cast<std::size_t>(place)].sample);
  CHECK(compared == 24);
  CHECK_THROWS_AS(in_passes(steps, 4), Error);
  CHECK_THROWS_AS(in_passes(steps, 0), Error);
}

TEST_CASE("sample_order: local order is a function of seed, epoch and replicas") {
  const SampleOrder order{Shuffle::kLocal, 5, 40, 2, 4}, other{Shuffle::kLocal, 6, 40, 2, 4};
  CHECK(all_taken(order.training(3), 1) == all_taken(order.training(3), 1));
  CHECK(all_taken(order.training(3), 1) != all_taken(order.training(4), 1));
  CHECK(all_taken(order.training(3), 1) != all_taken(other.training(3), 1));
  // The shards are permuted independently of each other.
  Order shifted = all_taken(order.training(3), 0);
  for (std::int64_t& sample : shifted) sample += 20;
  CHECK(shifted != all_taken(order.training(3), 1));
}

}  // namespace
}  // namespace halomesh
