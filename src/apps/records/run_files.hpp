// SPDX-License-Identifier: Apache-2.0
// What a run has written so far: run.json and metrics.jsonl, read while the run may still write.
// Must not depend on MPI: login nodes read these files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/log/metrics.hpp"

namespace halomesh {

/// A record of metrics.jsonl and when it was written, in Unix seconds; 0: not recorded.
template <class Record>
struct Timed {
  Record record;
  double time = 0;
};

/// The files of one run, as far as they have been read.
class RunFiles {
 public:
  /// Reads run.json, if it is there, and all complete lines of metrics.jsonl. Throws Error when
  /// `directory` is none or holds neither file.
  explicit RunFiles(std::filesystem::path directory);

  /// Reads what was appended since, or everything again when a resumed run has replaced a file.
  /// True when there was something new.
  bool update();

  const std::filesystem::path& directory() const { return directory_; }
  /// The name for people: the directory without its parents.
  std::string name() const;
  /// run.json; null when it is absent or damaged.
  const nlohmann::ordered_json& run() const { return run_; }
  const std::vector<Timed<StepRecord>>& steps() const { return steps_; }
  const std::vector<Timed<EvaluationRecord>>& evaluations() const { return evaluations_; }
  /// Lines of the event "phases", whole.
  const std::vector<nlohmann::json>& phases() const { return phases_; }
  /// The last line of the event "stage"; null when nothing was staged.
  const nlohmann::json& stage() const { return stage_; }
  /// When the last line was written, or, if lines have no time, when the file was.
  double last_written() const { return last_written_; }
  /// What is wrong with the files, for the user. A last line that is incomplete may still be being
  /// written.
  std::vector<std::string> problems() const;

 private:
  void read_run();
  void read_metrics(const std::string& text);
  bool take(std::string_view line);
  void forget();

  std::filesystem::path directory_;
  nlohmann::ordered_json run_;
  std::vector<Timed<StepRecord>> steps_;
  std::vector<Timed<EvaluationRecord>> evaluations_;
  std::vector<nlohmann::json> phases_;
  nlohmann::json stage_;
  double last_written_ = 0;
  std::uintmax_t position_ = 0;            // end of the last complete line
  std::uint64_t file_ = 0, run_file_ = 0;  // inodes
  std::int64_t run_time_ = 0;              // of its last change, in ns
  std::int64_t lines_ = 0, damaged_ = 0, first_damaged_ = 0;
  bool metrics_missing_ = false, run_missing_ = false, run_damaged_ = false, cut_ = false;
};

}  // namespace halomesh
