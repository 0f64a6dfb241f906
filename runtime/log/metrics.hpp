// SPDX-License-Identifier: Apache-2.0
// The records of a run for users and scripts: metrics.jsonl and run.json. Only rank 0 writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "rank_spread.hpp"
#include "runtime/log/phase_summary.hpp"
#include "runtime/posix/line_file.hpp"
#include "score.hpp"
#include "src/nn/class_scores.hpp"

namespace halomesh {

/// One optimizer step.
struct StepRecord {
  std::int64_t step = 0;   ///< counted from 1 at the network's first step
  std::int64_t epoch = 0;  ///< epoch of this step, from 0
  double loss = 0;
  double lr = 0;
  double seconds = 0;  ///< wall time
};

/// One pass over a validation set.
struct EvaluationRecord {
  std::int64_t epoch = 0;
  double score = 0;
  double loss = 0;
  std::int64_t samples = 0;
  double seconds = 0;        ///< wall time
  Score kind = Score::kMae;  ///< the meaning of `score`
  /// No voxel of the set is foreground: the score then tells how little foreground is predicted,
  /// and reaches no target.
  bool empty = false;

  bool reaches(double target) const { return !empty && halomesh::reaches(kind, score, target); }
};

/// The score in a line of metrics.jsonl; empty if the line has no number for one.
std::optional<Score> score_in(const nlohmann::json& line);

/// The staging of a run's data, summed over all ranks.
struct StageRecord {
  double seconds = 0;  ///< wall time
  std::int64_t samples = 0;
  std::int64_t bytes_read = 0;  ///< from the data set's files
  std::int64_t read_calls = 0;
  double read_seconds = 0;        ///< inside these reads
  std::int64_t bytes_staged = 0;  ///< as stored
  bool reused = false;            ///< the stage of an earlier run was reused
  RankSpread rank_seconds;        ///< the wall times of the ranks
};
/// A text such as "staged 128 samples in 0.5 s: 4.2 MB read, 8.4 MB stored in DIRECTORY".
std::string to_text(const StageRecord& record, const std::filesystem::path& directory);
nlohmann::ordered_json to_json(const StageRecord& record);

/// The log metrics.jsonl: one JSON object per line, in the order of training, each with the "time"
/// of its writing in Unix seconds, to the millisecond. Reading a number gives the double that was
/// written; values that are not finite are written as null. Move-only.
class MetricsLog {
 public:
  /// A log that writes nothing, for ranks other than 0.
  MetricsLog() = default;
  /// Opens the file for a training that has done `last_step` steps, so that it describes this one
  /// curve: an earlier run's records from its first step after `last_step` on are removed
  /// (atomically); with last_step 0 the file starts empty. Only the last MiB of a long file is
  /// read, unless something is wrong there. Damaged lines are removed as well, after the original
  /// file has been copied (LineFile::damaged_path()). If steps up to `last_step` are missing, a
  /// line
  ///   {"event":"resumed","step":last_step,"records_missing":N,"time":...}
  /// is added. Throws Error naming the file if it cannot be read or written.
  explicit MetricsLog(std::filesystem::path path, std::int64_t last_step = 0);

  /// The validation after `last_step` steps, if an earlier run has recorded it.
  const std::optional<EvaluationRecord>& evaluation_before() const { return evaluation_before_; }

  /// A warning for the user about damage of the file; "" if it was complete.
  const std::string& warning() const { return warning_; }

  /// Throws Error if the line cannot be written completely, e.g. because the disk is full.
  void step(const StepRecord& record);
  /// `classes` are the qualities of a segmentation's classes, `labels` those of samples' classes.
  void evaluation(const EvaluationRecord& record, std::span<const ClassQuality> classes = {},
                  const std::optional<ClassScores>& labels = {});
  void stage(const StageRecord& record);
  /// Writes where the time of the steps since the last such line went.
  void phases(const PhaseSummary& summary);
  /// Writes the phases of each layer.
  void layers(const PhaseSummary& summary);

 private:
  void append(nlohmann::ordered_json line);

  LineFile file_;
  std::optional<EvaluationRecord> evaluation_before_;
  std::string warning_;
};

/// The time of day in Unix seconds, to the millisecond.
double unix_time();

/// Adds scores of classes of samples to an object: balanced_accuracy, auc and, of up to 64 classes,
/// confusion, a matrix for each label.
void add_to_json(nlohmann::ordered_json& json, const ClassScores& scores);

/// Writes `record` to `path` (run.json) atomically, keys in their given order. Texts may hold
/// any bytes: see dump_json(). Throws Error naming the file.
void write_run_record(const std::filesystem::path& path, const nlohmann::ordered_json& record);

}  // namespace halomesh
