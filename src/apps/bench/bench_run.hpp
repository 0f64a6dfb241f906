// SPDX-License-Identifier: Apache-2.0
// Measures one mesh in one precision: real training steps and evaluation passes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/log/phase_times.hpp"
#include "runtime/mpi/mpi.hpp"
#include "runtime/step/phase_work.hpp"
#include "runtime/step/recompute_choice.hpp"
#include "runtime/step/reduction.hpp"
#include "src/apps/bench/bench_options.hpp"
#include "src/apps/bench/network_speed.hpp"
#include "src/apps/bench/timed_machine.hpp"

namespace halomesh {

struct Spread {
  double median = 0, min = 0, max = 0;
};
/// The spread of at least one value. The median of an even number of values is the mean of the
/// middle two.
Spread spread_of(std::vector<double> values);

/// One phase of the mean step, over all ranks.
struct PhaseRow {
  PhaseKey key;
  double mean_s = 0, max_s = 0;  ///< over ranks
  double received_bytes = 0;     ///< summed over ranks
  PhaseWork work;                ///< summed over ranks
};

/// The share of a step, over ranks.
struct StepShare {
  double mean = 0, max = 0;
};

struct BenchResult {
  BenchCase setting;
  Reduction reduction = Reduction::kAuto;
  DataType payload = DataType::kFloat32;  ///< the type of gradients in messages
  std::int64_t local_batch = 1, parameters = 0, steps = 0;
  std::vector<double> seconds;  ///< the time of each step on its slowest rank
  Spread step_s, samples_per_s;
  std::optional<Spread> evaluated_per_s;
  double mean_step_s = 0;  ///< mean over steps and ranks: the sum of the rows' mean_s
  std::vector<PhaseRow> rows;
  double flops = 0;  ///< operations of a step, all ranks
  StepShare halo_wait, reduction_wait, input_wait, packing;
  StepShare exchange_wait;                                  ///< waiting for halos and gradient sums
  std::int64_t max_memory_bytes = 0, sum_memory_bytes = 0;  ///< peak memory of a process
  bool memory_of_this_run = true;                           ///< false: since the program's start
  std::optional<RecomputeChoice> recompute;                 ///< the choice of --recompute auto
  std::optional<NetworkSpeed> network;                      ///< empty for one rank
  std::vector<std::string> implementations;                 ///< kernels of rank 0
  double last_loss = 0;
};

/// Runs one case. `options` are those of the network, see with_padded_input(). With a `machine`
/// (may be null), layers take its times instead of computing. Collective over `world`. Throws Error
/// if the loss is not finite.
BenchResult run_case(const Comm& world, const Options& options, const BenchPlan& plan,
                     const BenchCase& setting, TimedMachine* machine = nullptr);

}  // namespace halomesh
