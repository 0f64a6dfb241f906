// SPDX-License-Identifier: Apache-2.0
// The measurements of a scaling study, kept in a file from which a stopped study continues.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/apps/bench/bench_run.hpp"
#include "src/apps/scaling/scaling_plan.hpp"

namespace halomesh {

/// The settings on which measurements must agree to share a table: options and machine, by name.
using StudySettings = std::map<std::string, std::string>;

/// A forecast of one case.
struct PredictedStep {
  double step_s = 0, low_s = 0, high_s = 0;
};

/// The record file: {program record..., "study": settings, "measurements": [...], "runs": [...]}. A
/// measurement is one case in one round; the runs, for report and for people, combine all rounds so
/// far: one per case and kind of scaling.
class ScalingRecord {
 public:
  ScalingRecord(nlohmann::ordered_json program, StudySettings settings);

  /// Adopts the measurements of an earlier run. Throws Error, naming the file, if `text` is no such
  /// file, and naming the setting and both values if it was measured with different settings.
  void resume(const std::string& text, const std::filesystem::path& file);

  bool has(const ScalingCase& one, std::int64_t round) const;
  void add(const ScalingCase& one, std::int64_t round, const BenchResult& result);

  std::int64_t measurements() const;
  /// The rounds of one case: all step times, and mean wait shares.
  struct Summary {
    ScalingCase setting;
    std::int64_t rounds = 0;
    std::vector<double> seconds;
    double mean_s = 0;  ///< over steps and ranks
    double halo_wait = 0, reduction_wait = 0, input_wait = 0;
    double efficiency = 0;  ///< see summaries(); 0: no smaller run has been measured
    std::optional<PredictedStep> predicted;

    double rate() const;  ///< samples per second, at the median step
  };
  /// Summaries of the cases measured so far. Efficiency is samples per second and rank, over those
  /// of the fastest case of this kind of scaling on the smallest number of ranks.
  std::vector<Summary> summaries(const std::vector<ScalingCase>& cases, bool strong,
                                 const std::map<std::string, PredictedStep>& predicted) const;

  /// The whole file.
  nlohmann::ordered_json json(const std::vector<ScalingCase>& cases,
                              const std::map<std::string, PredictedStep>& predicted) const;

 private:
  nlohmann::ordered_json program_, measurements_ = nlohmann::ordered_json::array();
  StudySettings settings_;
};

}  // namespace halomesh
