// SPDX-License-Identifier: Apache-2.0
// The log mllog.txt that MLPerf HPC requires, one per run even if the run takes several jobs.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/posix/line_file.hpp"
#include "score.hpp"
#include "src/nn/optimizer.hpp"
#include "src/nn/schedule.hpp"

namespace halomesh {

/// The version of the rules. v0.7 counts epochs from 0 and lacks the seed, the numbers of ranks,
/// nodes and accelerators, weight decay and dropout.
enum class MlperfVersion { kV07, kV10 };

/// The set of keys in a log: CosmoFlow's, which other networks use, too, or DeepCAM's, for which
/// v0.7 had no rules.
enum class MlperfKeys { kCosmoflow, kDeepcam };

/// Parses "v0.7" or "v1.0"; throws UsageError otherwise.
MlperfVersion parse_mlperf_version(const std::string& text);

/// The description of a submission.
struct MlperfSubmission {
  std::string benchmark, org, division, status, platform;
  std::string poc_name, poc_email;  ///< left out if empty
  std::uint64_t seed = 0;
  std::int64_t ranks = 1, nodes = 1;
};

/// The facts about the training in a DeepCAM log.
struct MlperfTraining {
  std::int64_t global_batch = 1;
  std::int64_t batch_norm = 1;  ///< samples that are normalized together
  std::int64_t accumulate = 1;  ///< passes per step
  std::string checkpoint{};     ///< the source of the weights; empty: none
  std::string optimizer{};      ///< Optimizer::title()
  OptimizerOptions settings{};
  double clip_norm = 0;  ///< 0: none
  ScheduleOptions schedule{};
};

/// The result of a validation. Epochs count from 0; -1 is one before the first step.
struct MlperfEvaluation {
  std::int64_t epoch = 0, step = 0;  ///< `step` counts the steps done so far
  Score kind = Score::kMae;
  double score = 0, loss = 0;
  double target = 0;        ///< the target score; 0: none
  bool ends_epoch = false;  ///< no steps of the epoch are left
};

/// The position of a training run when its log is opened.
struct MlperfPoint {
  std::int64_t step = 0;      ///< steps done; 0: a new run
  std::int64_t epoch = 0;     ///< epoch of the next step, from 0
  bool inside_epoch = false;  ///< some of that epoch's steps are done
  bool epoch_closed = true;   ///< the previous epoch has been validated, if due
  bool over = false;          ///< no work is left
};

/// Writes lines ":::MLLOG {...}" in the format of github.com/mlcommons/logging
/// (mlperf_logging/mllog), with the keys namespace, time_ms, event_type, key, value, metadata.
/// Their order is that of the benchmark's reference, github.com/mlcommons/hpc, cosmoflow/train.py
/// or deepcam/src/deepCam/train.py, except that numbers of samples follow run_start, before which
/// no data may be touched; `file` and `lineno` of the metadata name the line here that wrote an
/// event.
///
/// Until open(), lines are held in memory with their original time. A run that is stopped or killed
/// leaves a log without run_stop; the job that resumes it appends to this file. Lines about epochs
/// after the checkpoint are removed, because these are trained again. The lines from init_start to
/// run_start are not repeated, so that the run's time spans its first start to its end. A line with
/// the key `resumed` and the step marks the place (the official checker skips unknown keys). Only
/// rank 0 creates a log with a version. Move-only.
class MlperfLog {
 public:
  /// A log that writes nothing, for ranks other than 0.
  MlperfLog() = default;
  explicit MlperfLog(MlperfVersion version, MlperfKeys keys = MlperfKeys::kCosmoflow)
      : speaks_(true), version_(version), deepcam_(keys == MlperfKeys::kDeepcam) {}

  // Call these before open(), in this order except staging; with DeepCAM's keys submission() comes
  // first.
  /// `cache_cleared`: the file caches of the nodes were cleared before the run.
  void init_start(bool cache_cleared);
  void submission(const MlperfSubmission& submission);
  /// Only for logs with DeepCAM's keys, which then need no optimizer().
  void training(const MlperfTraining& training);
  /// Ends the initialization and starts the clock: call it before any data are touched or staged.
  void run_start();
  void samples(std::int64_t global_batch, std::int64_t train, std::int64_t evaluation);
  /// For each job of a run that stages; before open() or after it.
  void staging_start();
  void staging_stop();
  /// `name` is the optimizer's, and `schedule` uses the terms of the rules: base rate = peak,
  /// warm-up factor = peak / first rate, decay factor = the largest. Other decays and networks
  /// without dropout have no keys and are left out.
  void optimizer(const std::string& name, const ScheduleOptions& schedule, double weight_decay,
                 std::optional<double> dropout);

  /// Opens the file; from here on each line is in it when its call returns. Damaged lines are
  /// removed, after the original file has been copied (LineFile::damaged_path()). Throws Error
  /// naming the file if it was started with another version, or cannot be read or written.
  void open(const std::filesystem::path& path, const MlperfPoint& point);

  /// A warning for the user about damage of the file; "" if it was complete.
  const std::string& warning() const { return warning_; }

  // Below, `epoch` counts from 0, and -1 is a validation before the first step; `step` counts steps
  // done.
  /// Does nothing if an earlier job has logged the start of this epoch.
  void epoch_start(std::int64_t epoch, std::int64_t step);
  /// Logs the learning rate and loss at an epoch's last step; for DeepCAM's keys only.
  void trained(std::int64_t epoch, std::int64_t step, double rate, double loss);
  void eval_start(std::int64_t epoch);
  /// Logs the end of the validation, its score (`eval_error` for an MAE, `eval_accuracy` for
  /// others) and, if it ends the epoch, the epoch's end.
  void eval_stop(const MlperfEvaluation& evaluation);
  void epoch_stop(std::int64_t epoch, std::int64_t step);
  /// Logs the status "success" if the target was reached, else "aborted". Call it once per run.
  void run_stop(bool success);

 private:
  /// The time of day at construction, advanced by the monotonic clock: differences are durations
  /// even if the time of day is set meanwhile.
  class SteadyUnixTime {
   public:
    std::int64_t ms() const;
    /// Continues from this time if an earlier job's clock was ahead, by a week at most: no clock is
    /// further off, but a damaged line may be.
    void not_before(std::int64_t time_ms) {
      constexpr std::int64_t kWeek = std::int64_t{7} * 24 * 3600 * 1000;
      const std::int64_t now = ms();
      if (time_ms > now && time_ms < now + kWeek) first_ms_ += time_ms - now;
    }

   private:
    std::int64_t first_ms_ = std::chrono::duration_cast<std::chrono::milliseconds>(
                                 std::chrono::system_clock::now().time_since_epoch())
                                 .count();
    std::chrono::steady_clock::time_point first_ = std::chrono::steady_clock::now();
  };
  struct Event;
  struct WaitingLine {
    std::string text;
    bool of_each_job;  // staging; all other lines occur once per run
  };
  void add(const Event& event);
  class RunFilter;
  std::int64_t first_epoch() const { return version_ == MlperfVersion::kV07 ? 0 : 1; }

  void machine(const MlperfSubmission& submission);
  void scheduler(const ScheduleOptions& schedule);

  bool speaks_ = false;
  MlperfVersion version_ = MlperfVersion::kV10;
  bool deepcam_ = false;  // for MlperfKeys::kDeepcam
  MlperfSubmission submission_{};
  SteadyUnixTime clock_;
  std::vector<WaitingLine> waiting_;
  LineFile file_;
  bool goes_on_ = false;                    // continues the log of an earlier job
  bool stopped_ = false;                    // run_stop has been logged
  std::optional<std::int64_t> open_epoch_;  // started and not stopped, as numbered in the file
  std::string warning_;
};

}  // namespace halomesh
