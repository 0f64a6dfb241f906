// SPDX-License-Identifier: Apache-2.0
// The learning rate as a pure function of the step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace halomesh {

enum class ScheduleKind { kConstant, kStep, kLinear, kMultistep, kCosine, kPoly };

/// The names of all schedules, the default first.
std::vector<std::string> schedule_names();
/// The kind of a name in schedule_names(); otherwise throws UsageError listing them.
ScheduleKind parse_schedule_kind(const std::string& text);
std::string to_string(ScheduleKind kind);

/// A schedule with epochs and steps counted from 0. The rates of constant, step and linear change
/// between epochs only, except during a warm-up by steps; the other rates change with every step.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  double peak = 0.001;                     ///< rate after the warm-up
  std::int64_t warmup_epochs = 0;          ///< for any kind of schedule
  double warmup_initial = 0.001;           ///< rate of epoch 0 of a warm-up
  std::vector<std::int64_t> decay_epochs;  ///< step: boundaries, increasing
  std::vector<double> decay_factors;       ///< step: one per boundary, each of the peak
  std::int64_t linear_epochs = 1;          ///< linear: epochs of the decay, after the warm-up
  double linear_end_factor = 0.01;         ///< linear: final rate as a fraction of the peak
  std::int64_t warmup_steps = 0;           ///< for any kind, instead of warmup_epochs
  std::vector<std::int64_t> milestones;    ///< multistep: steps after the warm-up, increasing
  double gamma = 0.1;                      ///< multistep: factor of each milestone
  std::int64_t decay_steps = 0;            ///< cosine, poly: steps of the decay after the warm-up
  double min_lr = 0;                       ///< cosine, poly: final rate
  double poly_power = 1;                   ///< poly
};

/// The learning rate of every step of a run:
///   epoch < W (warm-up):  initial + (peak - initial) * epoch / W, a step function of the epoch
///   constant:             peak
///   step:                 peak * factor of the last boundary *strictly below* epoch: factor 0.25
///                         of boundary 32 first applies in epoch 33
///   linear:               end + (peak - end) * (1 - min(epoch - W, N) / N), end = peak * end
///                         factor, N = linear_epochs
/// and by steps, of which s are before this one:
///   s < W (warm-up):      peak * s / W: the first update has the rate 0
/// and with s from the end of the warm-up, D = decay_steps:
///   multistep:            peak * gamma^(number of milestones <= s)
///   cosine:               min + (peak - min) * (1 + cos(pi * min(s, D) / D)) / 2
///   poly:                 min + (peak - min) * (1 - min(s, D) / D)^power
/// Sources: warm-up by epochs and step, github.com/mlcommons/hpc: cosmoflow/utils/optimizers.py
/// (the benchmark's reference, v0.7 and v1.0); linear ("poly" with power 1), warm-up from a given
/// rate, and the step decay's boundary + 1, github.com/mlcommons/hpc_results_v0.7:
/// Fujitsu/benchmarks/
/// cosmoflow/implementations/implementation_fugaku_open/cosmoflow-benchmark/utils/optimizers.py;
/// multistep and cosine, MultiStepLR and CosineAnnealingLR of torch.optim.lr_scheduler; warm-up by
/// steps before them, github.com/ildoonet/pytorch-gradual-warmup-lr, as in the runs of DeepCAM in
/// hpc_results_v0.7; poly, nnU-Net (Isensee et al., Nature Methods 18, 2021), by steps.
class Schedule {
 public:
  /// Throws UsageError naming the invalid option.
  Schedule(ScheduleOptions options, std::int64_t steps_per_epoch);

  /// Learning rate of a step, counted from 0.
  double rate(std::int64_t step) const;

 private:
  double rate_of_epoch(std::int64_t epoch) const;
  double decayed(std::int64_t step) const;

  ScheduleOptions options_;
  std::int64_t steps_per_epoch_;
};

}  // namespace halomesh
