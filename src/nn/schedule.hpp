// SPDX-License-Identifier: Apache-2.0
// The learning rate as a pure function of the step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace halomesh {

enum class ScheduleKind { kConstant, kStep, kLinear };

/// "constant", "step" or "linear"; otherwise throws UsageError naming the three.
ScheduleKind parse_schedule_kind(const std::string& text);
std::string to_string(ScheduleKind kind);

/// A schedule with epochs counted from 0. The rate changes between epochs only.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  double peak = 0.001;                     ///< rate after the warm-up
  std::int64_t warmup_epochs = 0;          ///< of any kind of schedule
  double warmup_initial = 0.001;           ///< rate of epoch 0 of a warm-up
  std::vector<std::int64_t> decay_epochs;  ///< step: boundaries, increasing
  std::vector<double> decay_factors;       ///< step: one per boundary, each of the peak
  std::int64_t linear_epochs = 1;          ///< linear: epochs of the decay, after the warm-up
  double linear_end_factor = 0.01;         ///< linear: final rate as a fraction of the peak
};

/// The learning rate of every step of a run:
///   epoch < W (warm-up):  initial + (peak - initial) * epoch / W, a step function of the epoch
///   constant:             peak
///   step:                 peak * factor of the last boundary *strictly below* epoch: factor 0.25
///                         of boundary 32 first applies in epoch 33
///   linear:               end + (peak - end) * (1 - min(epoch - W, N) / N), end = peak * end
///                         factor, N = linear_epochs
/// Sources: warm-up and step, github.com/mlcommons/hpc: cosmoflow/utils/optimizers.py (the
/// benchmark's reference, v0.7 and v1.0); linear ("poly" with power 1), warm-up from a given rate,
/// and the step decay's boundary + 1, github.com/mlcommons/hpc_results_v0.7: Fujitsu/benchmarks/
/// cosmoflow/implementations/implementation_fugaku_open/cosmoflow-benchmark/utils/optimizers.py.
class Schedule {
 public:
  /// Throws UsageError naming the invalid option.
  Schedule(ScheduleOptions options, std::int64_t steps_per_epoch);

  /// Learning rate of a step, counted from 0: that of epoch step / steps_per_epoch.
  double rate(std::int64_t step) const { return rate_of_epoch(step / steps_per_epoch_); }
  double rate_of_epoch(std::int64_t epoch) const;

 private:
  ScheduleOptions options_;
  std::int64_t steps_per_epoch_;
};

}  // namespace halomesh
