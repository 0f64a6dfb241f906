// SPDX-License-Identifier: Apache-2.0
// Fits constants of a machine to measured steps of another program, or of this one on fewer nodes.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/apps/forecast/step_forecast.hpp"

namespace halomesh {

/// One measured run. Times that were not measured are 0.
struct MeasuredRun {
  std::string label;
  MeshShape mesh;
  std::int64_t batch = 1;  ///< the global batch
  int threads = 0;         ///< threads per rank; 0: the machine's
  double step_s = 0, evaluation_step_s = 0, staging_s = 0, startup_s = 0, minutes = 0;
};

/// Reads lines "label,parts,replicas,batch,step_ms,eval_step_ms,staging_s,startup_s,minutes".
/// Throws UsageError with file and line.
std::vector<MeasuredRun> read_runs(const std::filesystem::path& file);

/// The model step = base (1 + slope log2(ranks)).
struct Straggling {
  double base_s = 0, slope = 0;
  double step_s(double ranks) const;
};

/// Fits weak-scaling steps {ranks, seconds} by least squares, assuming 1 % of noise in a step. The
/// slope is taken as `prior` +- half of it beforehand, so that few points do not extrapolate their
/// noise.
Straggling fit_straggling(const std::vector<std::pair<double, double>>& steps,
                          double prior = 0.012);

/// The `machine` with constants that make forecast_step() meet the steps of `runs`. Kernels are
/// scaled (by kernel-time-factor if their times were measured, else by kernel-efficiency, which
/// does not affect kernels bound by memory). In addition:
/// - if all runs cut samples alike, straggler-per-doubling is fitted by fit_straggling();
/// - otherwise step-overhead-ms is fitted, and a straggler that is only assumed becomes 0, because
///   a few runs of different cuts cannot tell growth with ranks from a constant.
/// The numbers' sources say so. On a machine without a network all ranks of a run share one node.
/// Throws UsageError without runs, or for steps that no constants meet.
Machine fit_to_runs(Machine machine, const Model& model, const std::vector<MeasuredRun>& runs);

/// The forecast of a run's step.
double predicted_step_s(const Machine& machine, const Model& model, const MeasuredRun& run,
                        bool training = true);

}  // namespace halomesh
