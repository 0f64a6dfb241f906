// SPDX-License-Identifier: Apache-2.0
// Owners: every sample has exactly one, where its shard or its validation step says.
#include "partition/samples/sample_owners.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <vector>

#include "error.hpp"

namespace halomesh {
namespace {

TEST_CASE("sample_owners: slots and samples are inverse, and cover the split") {
  std::int64_t compared = 0;
  for (const std::int64_t samples : {0, 1, 5, 12, 37})
    for (const std::int64_t replicas : {1, 2, 3, 8})
      for (const std::int64_t local_batch : {1, 3}) {
        const SampleOrder order{Shuffle::kGlobal, 9, samples, replicas, local_batch};
        for (const SampleOwners& owners :
             {SampleOwners::of_training(order), SampleOwners::of_validation(order)}) {
          std::int64_t kept = 0;
          for (std::int64_t r = 0; r < replicas; ++r) {
            for (std::int64_t slot = 0; slot < owners.slots(r); ++slot, ++compared) {
              const std::int64_t sample = owners.sample({r, slot});
              CHECK(owners.of(sample) == SampleOwners::Owner{r, slot});
              if (slot > 0) CHECK(sample > owners.sample({r, slot - 1}));
            }
            kept += owners.slots(r);
          }
          CHECK(kept == samples);
          CHECK_THROWS_AS(owners.of(samples), Error);
          CHECK_THROWS_AS(owners.of(-1), Error);
        }
      }
  CHECK(compared == 2 * 4 * 2 * (1 + 5 + 12 + 37));
}

TEST_CASE("sample_owners: shards for training, the steps' samples for validation") {
  const SampleOrder order{Shuffle::kLocal, 9, 23, 3, 2};
  const SampleOwners training = SampleOwners::of_training(order),
                     validation = SampleOwners::of_validation(order);
  const BatchSchedule pass = order.validation(), epoch = order.training(4);
  for (std::int64_t r = 0; r < 3; ++r) {
    for (std::int64_t step = 0; step < pass.steps; ++step)
      for (const SampleUse& use : pass.taken(step, r))
        CHECK(validation.of(use.sample).replica == r);
    for (std::int64_t step = 0; step < epoch.steps; ++step)
      for (const SampleUse& use : epoch.taken(step, r)) CHECK(training.of(use.sample).replica == r);
  }
}

TEST_CASE(
    "sample_owners: over 20 epochs each sample visits all groups about equally, once per epoch") {
  constexpr std::int64_t kSamples = 256, kGroups = 4, kEpochs = 20;
  const SampleOrder order{Shuffle::kGlobal, 3, kSamples, kGroups, 2};
  std::vector<std::vector<double>> visits(kSamples, std::vector<double>(kGroups));
  std::int64_t travelled = 0;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const BatchSchedule schedule = order.training(epoch);
    std::vector<std::int64_t> seen(kSamples);
    for (std::int64_t step = 0; step < schedule.steps; ++step)
      for (std::int64_t group = 0; group < kGroups; ++group)
        for (const SampleUse& use : schedule.taken(step, group)) {
          ++seen[static_cast<std::size_t>(use.sample)];
          ++visits[static_cast<std::size_t>(use.sample)][static_cast<std::size_t>(group)];
          travelled += SampleOwners::of_training(order).of(use.sample).replica != group ? 1 : 0;
        }
    CHECK(seen == std::vector<std::int64_t>(kSamples, 1));
  }
  // Expected 20 / 4 = 5 per cell. As every epoch gives each group its quarter, (256 - 1) (4 - 1) =
  // 765 cells are free: mean 765, deviation sqrt(2 * 765) = 39; five deviations either way.
  double chi_square = 0;
  for (const auto& of_sample : visits)
    for (const double hit : of_sample) chi_square += (hit - 5) * (hit - 5) / 5;
  CHECK(chi_square < 765 + 195);
  CHECK(chi_square > 765 - 195);
  // Three quarters are sent: 3840 of 5120, deviation below sqrt(5120 * 3/16) = 31.
  CHECK(std::abs(travelled - 3840) < 155);
}

}  // namespace
}  // namespace halomesh
