// SPDX-License-Identifier: Apache-2.0
// The passes of steps: see passes.hpp.
#include "partition/samples/passes.hpp"

#include "error.hpp"

namespace halomesh {

BatchSchedule in_passes(const BatchSchedule& steps, std::int64_t passes) {
  const std::int64_t count = steps.steps, replicas = steps.replicas, local = steps.local_batch;
  const auto size = static_cast<std::int64_t>(steps.uses.size());
  require(passes > 0 && local % passes == 0 && size == count * replicas * local,
          text("{} samples in {} steps of {} x {}, each in {} passes", size, count, replicas, local,
               passes));
  BatchSchedule schedule{count * passes, replicas, local / passes, {}};
  schedule.uses.reserve(steps.uses.size());
  for (std::int64_t pass = 0; pass < schedule.steps; ++pass)
    for (std::int64_t replica = 0; replica < replicas; ++replica) {
      const auto places =
          steps.taken(pass / passes, replica)
              .subspan(static_cast<std::size_t>(pass % passes * schedule.local_batch),
                       static_cast<std::size_t>(schedule.local_batch));
      schedule.uses.insert(schedule.uses.end(), places.begin(), places.end());
    }
  return schedule;
}

}  // namespace halomesh
