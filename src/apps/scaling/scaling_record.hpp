// SPDX-License-Identifier: Apache-2.0
// The measurements of a scaling study, kept in a file from which a stopped study goes on.
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

/// What decides whether measurements may stand in one table: options and machine, by name.
using StudySettings = std::map<std::string, std::string>;

/// A forecast of one case.
struct PredictedStep {
  double step_s = 0, low_s = 0, high_s = 0;
};

/// The file: {program record..., "study": settings, "measurements": [...], "runs": [...]}. A
/// measurement is one case in one round; runs are what report and people read: one per case and
/// kind of scaling, of all rounds so far.
class ScalingRecord {
 public:
  ScalingRecord(nlohmann::ordered_json program, StudySettings settings);

  /// Takes over the measurements of an earlier run. Throws Error, naming the file, when `text` is
  /// not such a file, and naming the setting and both values when it was measured with others.
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
    double efficiency = 0;  ///< see efficiencies below; 0: no smaller run has been measured
    std::optional<PredictedStep> predicted;

    double rate() const;  ///< samples per second, at the median step
  };
  /// Of the cases measured so far. Efficiency: samples per second and rank over those of the
  /// fastest case of the smallest number of ranks of the same kind of scaling.
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
