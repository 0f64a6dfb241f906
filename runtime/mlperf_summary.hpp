// What finished MLPerf logs say of their runs, and the score of several.
// Knows the logs' format; nothing of who wrote them, or of how results are printed.
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
  kReached,    ///< stopped with success, and a validation reached the target
  kMissed,     ///< stopped without
  kUnfinished  ///< never stopped
};

/// One run. Times in minutes or seconds, as named.
struct MlperfRun {
  std::string name;
  MlperfEnd end = MlperfEnd::kUnfinished;
  std::int64_t epochs = 0;           ///< begun ones
  std::optional<double> best_error;  ///< the least eval_error
  double staging_s = 0;              ///< summed up over all jobs of the run
  std::optional<double> minutes;     ///< run_start to run_stop
  std::int64_t resumed = 0;          ///< how often another job went on with it
};

/// Reads the text of a log; lines without ":::MLLOG" are those of other programs and skipped.
/// Throws Error naming `name` and the line where such a line is damaged, and when there is no
/// run_start, two of run_start or run_stop, or a run that stops before it starts.
MlperfRun read_mlperf_run(std::string_view text, const std::string& name, double target);

/// The score of a submission.
struct MlperfScore {
  std::int64_t missed = 0;                ///< runs that did not reach the target
  std::optional<double> olympic_minutes;  ///< the mean of all runs but the fastest and the slowest
  std::string reason;                     ///< why there is no score
};

/// A run that missed its target counts as the slowest; with more than one of them, or fewer than
/// three runs, there is no score. Source: github.com/mlcommons/training_policies,
/// hpc_training_rules.
MlperfScore score_runs(std::span<const MlperfRun> runs);

}  // namespace halomesh
