// SPDX-License-Identifier: Apache-2.0
// Whole runs: see run_forecast.hpp.
#include "src/apps/forecast/run_forecast.hpp"

#include <algorithm>
#include <cmath>

#include "error.hpp"
#include "src/apps/forecast/csv_lines.hpp"

namespace halomesh {

EpochTable::EpochTable(const std::filesystem::path& file) {
  for (const CsvLine& line : read_csv(file)) {
    if (line.cells.size() != 5)
      throw UsageError(fmt::format("{}: {} columns", line.where, line.cells.size()),
                       "give batch,low,mid,high,source");
    const Row row{line.number(0, 1),
                  {line.number(1, 0.01), line.number(2, 0.01), line.number(3, 0.01)},
                  line.cells[4]};
    const bool in_order = row.epochs.low <= row.epochs.mid && row.epochs.mid <= row.epochs.high &&
                          (rows_.empty() || rows_.back().batch < row.batch);
    if (!in_order)
      throw UsageError(fmt::format("{}: batches or epochs are not in ascending order", line.where),
                       "give rows by batch, each with low <= mid <= high");
    rows_.push_back(row);
  }
  if (rows_.empty())
    throw UsageError(fmt::format("{} has no rows", file.c_str()), "give batch,low,mid,high,source");
}

Range3 EpochTable::epochs(std::int64_t batch) const {
  const auto wanted = static_cast<double>(batch);
  const auto above =
      std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.batch >= wanted; });
  if (above == rows_.end()) return rows_.back().epochs;
  if (above == rows_.begin() || above->batch == wanted) return above->epochs;
  const Row &a = *(above - 1), &b = *above;
  const double t = std::log(wanted / a.batch) / std::log(b.batch / a.batch);
  const auto mix = [&](double x, double y) { return x + t * (y - x); };
  return {mix(a.epochs.low, b.epochs.low), mix(a.epochs.mid, b.epochs.mid),
          mix(a.epochs.high, b.epochs.high)};
}

std::string EpochTable::basis(std::int64_t batch) const {
  const auto wanted = static_cast<double>(batch);
  const auto above =
      std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.batch >= wanted; });
  if (above != rows_.end() && above->batch == wanted) return above->source;
  if (above == rows_.end() || above == rows_.begin())
    return fmt::format("as for batch {}, the nearest of the table",
                       above == rows_.end() ? rows_.back().batch : above->batch);
  return fmt::format("between batches {} and {}", (above - 1)->batch, above->batch);
}

double staging_seconds(const Machine& machine, std::int64_t nodes, const Workload& work) {
  const double of_nodes = machine.value("stage-node-mbs") * 1e6 * static_cast<double>(nodes);
  const double shared = machine.value("stage-shared-gbs") * 1e9;
  if (of_nodes <= 0) return 0;
  const double bytes = work.copies * work.sample_bytes *
                       static_cast<double>(work.training_samples + work.validation_samples);
  return bytes / (shared > 0 ? std::min(of_nodes, shared) : of_nodes);
}

RunForecast forecast_run(const Machine& machine, std::int64_t nodes, const Workload& work,
                         const StepForecast& training, const StepForecast& evaluation) {
  const auto steps = [&](std::int64_t samples) {
    return std::ceil(static_cast<double>(samples) / static_cast<double>(work.batch));
  };
  RunForecast run;
  if (work.training_samples == 0) {
    run.total_s = {training.low_s, training.step_s, training.high_s};
    return run;
  }
  run.epoch_s = steps(work.training_samples) * training.step_s;
  run.evaluation_s = steps(work.validation_samples) * evaluation.step_s;
  run.staging_s = staging_seconds(machine, nodes, work);
  run.startup_s = machine.value("startup-s");
  const auto total = [&](double epochs, double train_step, double evaluation_step) {
    return run.staging_s + run.startup_s +
           epochs * (steps(work.training_samples) * train_step +
                     steps(work.validation_samples) * evaluation_step);
  };
  run.total_s = {total(work.epochs.low, training.low_s, evaluation.low_s),
                 total(work.epochs.mid, training.step_s, evaluation.step_s),
                 total(work.epochs.high, training.high_s, evaluation.high_s)};
  return run;
}

}  // namespace halomesh
