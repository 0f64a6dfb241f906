// SPDX-License-Identifier: Apache-2.0
// The duration of a whole training run: epochs, evaluations, staging, time to solution.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/apps/forecast/step_forecast.hpp"

namespace halomesh {

/// A number with its uncertainty range.
struct Range3 {
  double low = 0, mid = 0, high = 0;
};

/// The number of epochs to a quality target, by global batch.
class EpochTable {
 public:
  /// Reads "batch,low,mid,high,source" lines; # begins a comment. Throws UsageError with file and
  /// line for numbers that are missing, not positive, or not in order.
  explicit EpochTable(const std::filesystem::path& file);

  /// Interpolates linearly in log(batch) between rows; beyond them the nearest row counts.
  Range3 epochs(std::int64_t batch) const;
  /// The data behind epochs(), e.g. "Cori KNL 1024, open division", "between batches 64 and 256".
  std::string basis(std::int64_t batch) const;

 private:
  struct Row {
    double batch;
    Range3 epochs;
    std::string source;
  };
  std::vector<Row> rows_;  ///< ascending batches
};

/// The work of a run.
struct Workload {
  std::int64_t batch = 1;
  std::int64_t training_samples = 262144, validation_samples = 65536;  ///< 0 training: unknown
  double sample_bytes = 0;  ///< staged bytes of one sample
  double copies = 1;        ///< how often the data set is staged over all nodes
  Range3 epochs;
};

/// Seconds to stage the data set on `nodes` nodes; 0 if the machine has no rate for it.
double staging_seconds(const Machine& machine, std::int64_t nodes, const Workload& work);

struct RunForecast {
  double epoch_s = 0, evaluation_s = 0, staging_s = 0, startup_s = 0;
  Range3 total_s;
};

/// Forecasts a run, or one step where the samples of an epoch are not known. Steps take `training`
/// and, in evaluations with the training's local batch, `evaluation`.
RunForecast forecast_run(const Machine& machine, std::int64_t nodes, const Workload& work,
                         const StepForecast& training, const StepForecast& evaluation);

}  // namespace halomesh
