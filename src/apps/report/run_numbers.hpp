// SPDX-License-Identifier: Apache-2.0
// The numbers of one run that tables and figures are made of, whatever file they come from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "runtime/log/mlperf_summary.hpp"
#include "src/apps/records/run_files.hpp"
#include "src/apps/report/statistics.hpp"

namespace halomesh {

/// Where the time of a run went, in seconds. From mllog.txt: T_sol = run_stop - run_start, T_stg,
/// T_ev = sums of staging and validation, T_tr = epochs without validation. Without it: from
/// metrics.jsonl, where T_tr is the sum of the steps.
struct RunTimes {
  double staging = 0, training = 0, evaluation = 0;
  std::optional<double> solution;  ///< T_sol; empty if the run has not ended
  bool from_log = false;

  /// T_sol, or the sum of what is known.
  double total() const { return solution ? *solution : staging + training + evaluation; }
  /// T_extra = T_sol - T_stg - T_tr - T_ev: opening files, checkpoints, start-up.
  double rest() const { return total() - staging - training - evaluation; }
};

struct RunNumbers {
  std::string name;
  const RunFiles* files = nullptr;  ///< null: a log alone; must outlive this
  std::optional<MlperfRun> log;
  std::string parts = "1x1x1", cpu, model, precision;
  std::int64_t ranks = 0, replicas = 1, nodes = 0, threads = 0;  ///< 0: not known
  std::int64_t batch = 0, training_samples = 0, validation_samples = 0;
  double target = 0;  ///< validation score; 0: none
  bool reached = false;
  std::optional<double> best_score;
  Score kind = Score::kMae;  ///< of the scores
  double epochs = 0;         ///< E: those that ended; part of one when none did
  double steps = 0, evaluated_samples = 0;
  RunTimes times;
  std::vector<double> epoch_s;  ///< training and validation of each epoch

  double epoch_seconds() const { return (times.training + times.evaluation) / epochs; }
  double training_rate() const {  ///< s_t, samples/s
    return steps * static_cast<double>(batch) / times.training;
  }
  double evaluation_rate() const { return evaluated_samples / times.evaluation; }  ///< s_v
  double combined_rate(double seconds_of_an_epoch) const {
    return static_cast<double>(training_samples + validation_samples) / seconds_of_an_epoch;
  }
  /// q = T_stg / T_epoch; then T_stg/T_sol = q/(q+E) where T_extra is negligible.
  double staging_epochs() const { return times.staging / epoch_seconds(); }
  std::int64_t local_batch() const { return batch / std::max<std::int64_t>(replicas, 1); }
};

/// `files` and `log` of one run; at least one is there.
RunNumbers numbers_of(const RunFiles* files, std::optional<MlperfRun> log, double target);

/// Runs of the same network, machine, mesh and batch: they differ in their seed.
struct RunGroup {
  std::string label;
  std::vector<const RunNumbers*> runs;

  const RunNumbers& first() const { return *runs.front(); }
  /// Statistics of `value(run)` over the runs.
  template <class Value>
  Statistics of(const Value& value) const {
    std::vector<double> values;
    for (const RunNumbers* run : runs) values.push_back(value(*run));
    return statistics_of(values);
  }
  /// E of the runs that reached the target, or of all if none did.
  Statistics epochs() const;
  bool any_reached() const;
};

/// In the order of their first runs.
std::vector<RunGroup> group_runs(const std::vector<RunNumbers>& runs);

/// The value of an option in run.json; "" when it is not recorded.
std::string option_of(const RunFiles& files, const std::string& name);

/// A number in a JSON object, found by its path of keys; NaN when it is not there.
template <class Json>
double number_at(const Json& json, std::initializer_list<const char*> keys) {
  const Json* at = &json;
  for (const char* key : keys) {
    if (!at->is_object() || !at->contains(key)) return std::numeric_limits<double>::quiet_NaN();
    at = &(*at)[key];
  }
  return at->is_number() ? at->template get<double>() : std::numeric_limits<double>::quiet_NaN();
}

/// The same for a text; "" when it is not there.
template <class Json>
std::string text_at(const Json& json, std::initializer_list<const char*> keys) {
  const Json* at = &json;
  for (const char* key : keys) {
    if (!at->is_object() || !at->contains(key)) return {};
    at = &(*at)[key];
  }
  return at->is_string() ? at->template get<std::string>() : std::string();
}

}  // namespace halomesh
