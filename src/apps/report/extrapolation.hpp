// SPDX-License-Identifier: Apache-2.0
// Time to solution of a configuration that did not run, from measured rates and known epochs:
//   T(B, P) = T_stg + E(B) [N_t / (s_t P/P0) + N_v / (s_v P/P0)]
// after the predictions in Farrell et al., arXiv:2110.11466: throughput per rank stays what it was
// on P0 ranks cut into the same parts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/apps/report/report_input.hpp"

namespace halomesh {

/// Rates that a run or bench has measured, in samples/s of all ranks.
struct MeasuredRates {
  std::string source, parts;
  double ranks = 1, local_batch = 1;
  double training = 0, evaluation = 0;
  double deviation = 0;  ///< relative, of the rates
  double staging_s = 0;
  bool evaluation_measured = true;  ///< false: the training rate stands in
};

/// Of all runs and files of bench.
std::vector<MeasuredRates> measured_rates(const ReportInput& input);

struct Extrapolation {
  Configuration configuration;
  double ranks = 0;
  const MeasuredRates* base = nullptr;   ///< null: nothing was measured with these parts
  std::optional<EpochsToTarget> epochs;  ///< empty: not known for this batch size
  double seconds_per_epoch = 0;
  double seconds = 0, deviation = 0;  ///< of the whole; 0 without epochs or base
};

/// Rates are those with the same parts, preferably the same local batch, and the nearest number of
/// ranks. Epochs are those given, or of runs with that batch size that reached the target.
Extrapolation extrapolate(const Configuration& configuration,
                          const std::vector<MeasuredRates>& rates, const ReportInput& input);

/// Samples of training and validation: of the runs, or those of CosmoFlow's set.
std::pair<double, double> samples_of(const ReportInput& input);

}  // namespace halomesh
