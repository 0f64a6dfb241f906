// SPDX-License-Identifier: Apache-2.0
// How far a run is, how fast, and whether it is still going: derived from its files alone.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/apps/records/run_files.hpp"

namespace halomesh {

enum class RunState : std::uint8_t {
  kDone,     ///< it has ended, or all its steps are done
  kRunning,  ///< the last line is recent enough
  kSilent    ///< no line has been written for longer than the limit
};
const char* name_of(RunState state);

/// What stands out of a run's files at one time. Times are in seconds; what is not known is empty,
/// and a number that was not finite is NaN.
struct RunStatus {
  std::string name;
  RunState state = RunState::kRunning;
  std::string result;  ///< how it ended: "done", "target" or "stopped"; "" unless the run says so
  std::int64_t step = 0, epoch = 0;           ///< steps done; the epoch of the last one, from 0
  std::optional<std::int64_t> steps, epochs;  ///< to do in all
  std::optional<std::int64_t> ranks;
  std::vector<double> losses;  ///< of each step on record
  std::optional<EvaluationRecord> last_evaluation;
  double best_score = 0;                             ///< of all evaluations, if there is one
  double target_score = 0;                           ///< 0: none
  double samples_per_s = 0, mean_samples_per_s = 0;  ///< now, and of all steps; 0: unknown
  std::int64_t phases_epoch = 0;
  std::vector<std::pair<std::string, double>> time_shares;  ///< kinds of time of a step, in [0, 1]
  std::string limit;                                        ///< the sentence of the run on them
  double silent_s = 0, silent_limit_s = 0;
  std::optional<double> left_s;  ///< to the last step, with the evaluations
  std::optional<double> wall_s;  ///< to the run's wall limit
  std::string scheduler, job;    ///< "slurm" or "pjm", and the number; "" for no job
};

/// The status at `now` (Unix seconds) of a run whose last sign of life was at `last_sign`.
/// `silent_limit_s` 0: 10 minutes, or ten times the usual interval between lines if that is longer.
RunStatus status_of(const RunFiles& files, double now, double last_sign, double silent_limit_s);

nlohmann::ordered_json to_json(const RunStatus& status);

}  // namespace halomesh
