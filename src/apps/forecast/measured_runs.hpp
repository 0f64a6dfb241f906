// SPDX-License-Identifier: Apache-2.0
// Fits constants of a machine to measured steps: of another program, or of this one on fewer nodes.
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
  std::int64_t batch = 1;  ///< global
  int threads = 0;         ///< of a rank; 0: those of the machine
  double step_s = 0, evaluation_step_s = 0, staging_s = 0, startup_s = 0, minutes = 0;
};

/// Reads "label,parts,replicas,batch,step_ms,eval_step_ms,staging_s,startup_s,minutes". Throws
/// UsageError with file and line.
std::vector<MeasuredRun> read_runs(const std::filesystem::path& file);

/// step = base (1 + slope log2(ranks)).
struct Straggling {
  double base_s = 0, slope = 0;
  double step_s(double ranks) const;
};

/// Fits weak-scaling steps {ranks, seconds}: least squares with 1 % of noise in a step and, so that
/// few points do not extrapolate their noise, a slope known beforehand as `prior` +- half of it.
Straggling fit_straggling(const std::vector<std::pair<double, double>>& steps,
                          double prior = 0.012);

/// `machine` with constants that make forecast_step() meet the steps of `runs`. Kernels are scaled
/// (kernel-time-factor where their times were measured, else kernel-efficiency, which leaves those
/// that memory bounds as they are), and
/// - where all runs cut samples alike, straggler-per-doubling is fitted by fit_straggling();
/// - otherwise step-overhead-ms is fitted, and a straggler that is only assumed becomes 0, as
/// growth
///   with ranks and a constant cannot be told apart from a few runs of different cuts.
/// The numbers' sources say so. On a machine without a network all ranks of a run share one node.
/// Throws UsageError for no runs, or steps that no constants meet.
Machine fit_to_runs(Machine machine, const Model& model, const std::vector<MeasuredRun>& runs);

/// The forecast of a run's step.
double predicted_step_s(const Machine& machine, const Model& model, const MeasuredRun& run,
                        bool training = true);

}  // namespace halomesh
