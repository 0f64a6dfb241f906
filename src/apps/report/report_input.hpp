// SPDX-License-Identifier: Apache-2.0
// The files that a report is about.
#pragma once

#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "partition/mesh_shape.hpp"
#include "src/apps/report/predictions.hpp"
#include "src/apps/report/published.hpp"
#include "src/apps/report/run_numbers.hpp"
#include "src/apps/report/trace_step.hpp"

namespace halomesh {

/// A file of `bench --json`.
struct BenchFile {
  std::string name;
  nlohmann::json record;
};

/// Epochs that a run needs to reach its target.
struct EpochsToTarget {
  double mean = 0, deviation = 0;
};

/// A mesh and batch size that did not run.
struct Configuration {
  std::int64_t replicas = 1, batch = 1;
  PartGrid parts;
};

struct ReportInput {
  std::deque<RunFiles> files;  ///< what the runs refer to
  std::vector<RunNumbers> runs;
  std::vector<BenchFile> benches;
  std::vector<PredictionFile> predictions;
  std::vector<TraceStep> traces;
  std::vector<ResultRow> results;
  std::vector<std::string> problems;  ///< a message for each file that is missing or damaged

  bool show_published = true;
  std::vector<Configuration> predict;
  std::optional<EpochsToTarget> epochs_to_target;
  std::string command;  ///< that made the report

  bool empty() const {
    return runs.empty() && benches.empty() && predictions.empty() && traces.empty() &&
           results.empty();
  }
};

/// Adds a run's directory, its mllog.txt, a file of bench --json, predict or train --trace, or a
/// file of results. What cannot be read becomes one of the problems. `target` is the validation
/// MAE to reach where a run does not record its own.
void add_input(ReportInput& input, const std::string& path, double target);

/// "512x4x4x1/512": replicas, parts in d, h and w, and the global batch size; several with commas
/// between them. Throws UsageError.
std::vector<Configuration> parse_configurations(const std::string& text);

/// "92" or "92+-5". Throws UsageError.
EpochsToTarget parse_epochs(const std::string& text);

}  // namespace halomesh
