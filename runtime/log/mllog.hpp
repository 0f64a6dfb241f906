// SPDX-License-Identifier: Apache-2.0
// mllog.txt: the log that MLPerf HPC requires, one per run even if the run takes several jobs.
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

/// Whose keys a log has: CosmoFlow's, which other networks use, too, or those of DeepCAM, which
/// v0.7 had no rules for.
enum class MlperfKeys { kCosmoflow, kDeepcam };

/// "v0.7" or "v1.0"; throws UsageError otherwise.
MlperfVersion parse_mlperf_version(const std::string& text);

/// The description of a submission.
struct MlperfSubmission {
  std::string benchmark, org, division, status, platform;
  std::string poc_name, poc_email;  ///< left out when empty
  std::uint64_t seed = 0;
  std::int64_t ranks = 1, nodes = 1;
};

/// What a DeepCAM log says of the training.
struct MlperfTraining {
  std::int64_t global_batch = 1;
  std::int64_t batch_norm = 1;  ///< samples that are normalized together
  std::int64_t accumulate = 1;  ///< passes of a step
  std::string checkpoint{};     ///< that the weights come from; empty: none
  std::string optimizer{};      ///< Optimizer::title()
  OptimizerOptions settings{};
  double clip_norm = 0;  ///< 0: none
  ScheduleOptions schedule{};
};

/// The result of a validation. Epochs count from 0; -1 is one before the first step.
struct MlperfEvaluation {
  std::int64_t epoch = 0, step = 0;  ///< step: done so far
  Score kind = Score::kMae;
  double score = 0, loss = 0;
  double target = 0;        ///< of the score; 0: none
  bool ends_epoch = false;  ///< no steps of the epoch are left
};

/// The position of a training run when its log is opened.
struct MlperfPoint {
  std::int64_t step = 0;      ///< steps done; 0: a new run
  std::int64_t epoch = 0;     ///< of the next step, from 0
  bool inside_epoch = false;  ///< some of that epoch's steps are done
  bool epoch_closed = true;   ///< the previous epoch has been validated, if due
  bool over = false;          ///< nothing is left to do
};

/// Lines ":::MLLOG {...}" in the format of github.com/mlcommons/logging (mlperf_logging/mllog):
/// keys namespace, time_ms, event_type, key, value, metadata. The order is that of the benchmark's
/// reference, github.com/mlcommons/hpc, cosmoflow/train.py or deepcam/src/deepCam/train.py, but
/// that numbers of samples come after run_start, as nothing touches data before; `file` and
/// `lineno` of the metadata name the line here that wrote an event.
///
/// Until open(), lines are held in memory with their original time. A run that is stopped or killed
/// leaves a log without run_stop; the job that resumes it appends to the same file. Lines about
/// epochs after the checkpoint are removed, as those are trained again; init_start to run_start are
/// not repeated, so that the run's time includes everything between its first start and its end; a
/// line with the key `resumed` and the step marks the place (the official checker skips unknown
/// keys). Only rank 0 creates one with a version. Move-only.
class MlperfLog {
 public:
  /// Writes nothing: for ranks other than 0.
  MlperfLog() = default;
  explicit MlperfLog(MlperfVersion version, MlperfKeys keys = MlperfKeys::kCosmoflow)
      : speaks_(true), version_(version), deepcam_(keys == MlperfKeys::kDeepcam) {}

  // All before open(), in this order except staging, and with DeepCAM's keys submission() first:
  /// `cache_cleared`: the file caches of the nodes were cleared before the run.
  void init_start(bool cache_cleared);
  void submission(const MlperfSubmission& submission);
  /// Only in logs with DeepCAM's keys, which then need no optimizer().
  void training(const MlperfTraining& training);
  /// Ends the initialization and starts the clock: call it before data are touched or staged.
  void run_start();
  void samples(std::int64_t global_batch, std::int64_t train, std::int64_t evaluation);
  /// Staging belongs to each job of a run that stages; before open() or after it.
  void staging_start();
  void staging_stop();
  /// `name` is that of the optimizer, `schedule` as the rules describe it: base rate = peak,
  /// warm-up factor = peak / first rate, decay factor = the largest. Other decays have no keys
  /// there and are left out. Networks without dropout have none.
  void optimizer(const std::string& name, const ScheduleOptions& schedule, double weight_decay,
                 std::optional<double> dropout);

  /// From here on each line is in the file when the call returns. Damaged lines are removed, and a
  /// copy of the original file is kept (LineFile::damaged_path()). Throws Error naming the file
  /// when it was started with another version, or cannot be read or written.
  void open(const std::filesystem::path& path, const MlperfPoint& point);

  /// What was wrong with the file, for the user; "" when it was complete.
  const std::string& warning() const { return warning_; }

  // `epoch` counts from 0; -1 is a validation before the first step. `step`: done so far.
  /// Does nothing if an earlier job has logged the start of this epoch.
  void epoch_start(std::int64_t epoch, std::int64_t step);
  /// At the end of the last step of an epoch, with its learning rate and loss; DeepCAM's keys only.
  void trained(std::int64_t epoch, std::int64_t step, double rate, double loss);
  void eval_start(std::int64_t epoch);
  /// The end of the validation, its score (`eval_error` for an MAE, `eval_accuracy` for others),
  /// and where it ends the epoch its end.
  void eval_stop(const MlperfEvaluation& evaluation);
  void epoch_stop(std::int64_t epoch, std::int64_t step);
  /// status "success" when the target was reached, else "aborted". Once per run.
  void run_stop(bool success);

 private:
  /// The time of day when it was made, and from then on by the monotonic clock: differences are
  /// durations, also where the time of day is set meanwhile.
  class SteadyUnixTime {
   public:
    std::int64_t ms() const;
    /// Goes on from there where an earlier job's clock was ahead: by a week at most, as no clock is
    /// further off than that, but a damaged line may be.
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
  LineFile::Kept kept_of(std::string_view text, const MlperfPoint& point,
                         const std::filesystem::path& path);
  std::int64_t first_epoch() const { return version_ == MlperfVersion::kV07 ? 0 : 1; }

  void machine(const MlperfSubmission& submission);
  void scheduler(const ScheduleOptions& schedule);

  bool speaks_ = false;
  MlperfVersion version_ = MlperfVersion::kV10;
  bool deepcam_ = false;  // MlperfKeys
  MlperfSubmission submission_{};
  SteadyUnixTime clock_;
  std::vector<WaitingLine> waiting_;
  LineFile file_;
  bool goes_on_ = false;                    // with the log of an earlier job
  bool stopped_ = false;                    // run_stop is there
  std::optional<std::int64_t> open_epoch_;  // started and not stopped, as numbered in the file
  std::string warning_;
};

}  // namespace halomesh
