// SPDX-License-Identifier: Apache-2.0
// The file run.json of a training run.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/machine/binding.hpp"
#include "runtime/train/trainer.hpp"
#include "src/apps/options/options.hpp"
#include "src/apps/train/network_on_mesh.hpp"

namespace halomesh {

/// The network, data and settings of a training run.
struct TrainingSetup {
  const NetworkOnMesh& network;
  const TrainerOptions& trainer;
  std::int64_t training_samples = 0, validation_samples = 0;
  std::vector<std::string> implementations;  ///< the library kernels of this rank's layers
};

/// The record of a run: program, options, machine, binding and number of nodes, the job, mesh and
/// network, and the least work of each phase of a step, summed over all ranks. Collective over the
/// network's mesh.
nlohmann::ordered_json training_record(const Options& options, const RankBinding& binding,
                                       const TrainingSetup& setup);

/// Returns "done", "target", "stopped" or "diverged".
const char* name_of(TrainingEnd end);

/// The end of a run: its kind by that name, the time of day, the seconds since its start by the
/// monotonic clock, and the numbers of steps and epochs.
nlohmann::ordered_json end_record(const TrainingResult& result, double seconds);

/// The batch job of this process as {"scheduler", "id"}, from its environment by `variable`
/// (std::getenv or a test's); null outside jobs.
nlohmann::ordered_json job_record(const std::function<const char*(const char*)>& variable);

}  // namespace halomesh
