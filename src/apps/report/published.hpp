// SPDX-License-Identifier: Apache-2.0
// Results of other runs: published ones, and those of a file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/log/mlperf_summary.hpp"

namespace halomesh {

/// A CosmoFlow submission to MLPerf HPC v0.7, from the logs that its ten runs published: medians
/// over runs and over all epochs but each run's first. Times in seconds.
struct PublishedRun {
  const char *name, *division, *system;
  double workers, parts, batch;
  double epochs, least_epochs, most_epochs;  ///< to the target
  double staging;                            ///< 0: not staged
  double training, evaluation, period;       ///< of an epoch; period: until the next one starts
  double minutes;                            ///< olympic mean of the time to solution

  double training_rate() const { return 262144 / training; }
  double evaluation_rate() const { return 65536 / evaluation; }
};

/// Source: the files result_*.txt of github.com/mlcommons/hpc_results_v0.7, benchmark cosmoflow.
const std::vector<PublishedRun>& published_runs();

/// Runs of one submission in a file of results.
struct ResultRow {
  std::string division, system, submission, software, processors, accelerators;
  std::vector<MlperfRun> runs;
};

/// Reads comma-separated values with a line per run. Columns by name, in any order: submission and
/// minutes (time to solution) are needed; division, system, software, processors, accelerators,
/// epochs and reached ("no" for a run that missed the target) may be there. Throws Error naming
/// file and line.
std::vector<ResultRow> read_results(const std::filesystem::path& path);

}  // namespace halomesh
