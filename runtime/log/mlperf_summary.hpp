// SPDX-License-Identifier: Apache-2.0
// Reads MLPerf logs and scores the runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halomesh {

enum class MlperfEnd {
  kReached,    ///< stopped successfully after a validation that reached the target
  kMissed,     ///< stopped without reaching it
  kUnfinished  ///< not stopped
};

/// One finished epoch, in seconds.
struct MlperfEpoch {
  std::int64_t number = 0;  ///< as in the log
  double seconds = 0;       ///< epoch_start to epoch_stop
  double evaluation_s = 0;  ///< of that, validation
};

/// One run. Times in minutes or seconds, as named.
struct MlperfRun {
  std::string name;
  MlperfEnd end = MlperfEnd::kUnfinished;
  std::int64_t epochs = 0;              ///< started
  std::optional<double> best_error;     ///< the lowest eval_error
  std::optional<double> best_accuracy;  ///< the highest eval_accuracy
  double staging_s = 0;                 ///< sum over all jobs of the run
  std::optional<double> minutes;        ///< run_start to run_stop
  std::int64_t resumed = 0;             ///< number of times that a job resumed it
  double evaluation_s = 0;              ///< sum over all validations
  std::vector<MlperfEpoch> finished;
  std::int64_t batch = 0, training_samples = 0, validation_samples = 0;  ///< 0: not in the log
};

/// Reads the text of a log; lines without ":::MLLOG" are skipped. Throws Error naming `name` and
/// the line if a line is damaged, if run_start is missing, if run_start or run_stop occurs twice,
/// or if the run stops before it starts.
MlperfRun read_mlperf_run(std::string_view text, const std::string& name, double target);

/// The score of a submission.
struct MlperfScore {
  std::int64_t missed = 0;                ///< runs that did not reach the target
  std::optional<double> olympic_minutes;  ///< mean of all runs except the fastest and the slowest
  std::string reason;                     ///< why there is no score
};

/// A run that missed its target counts as the slowest; with more than one of them, or fewer than
/// three runs, there is no score. Source: github.com/mlcommons/training_policies,
/// hpc_training_rules.
MlperfScore score_runs(std::span<const MlperfRun> runs);

}  // namespace halomesh
