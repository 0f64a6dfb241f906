// One mesh in one precision, measured: steps that really train, passes that really evaluate.
// Knows nothing of options' texts or of how results are printed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/mpi.hpp"
#include "runtime/reduction.hpp"
#include "src/apps/bench_options.hpp"
#include "src/apps/phase_work.hpp"
#include "src/apps/phases.hpp"

namespace halomesh {

struct Spread {
  double median = 0, min = 0, max = 0;
};
/// Of at least one value. Of an even number the median is the mean of the middle two.
Spread spread_of(std::vector<double> values);

/// A phase over all ranks, of the mean step.
struct PhaseRow {
  PhaseKey key;
  PhaseKind kind = PhaseKind::kOther;
  double mean_s = 0, max_s = 0;  ///< over ranks
  PhaseWork work;                ///< summed over ranks
};

/// Part of a step, over ranks.
struct WaitShare {
  double mean = 0, max = 0;
};

struct BenchResult {
  BenchCase setting;
  Reduction reduction = Reduction::kFlat;
  std::int64_t local_batch = 1, parameters = 0, steps = 0;
  Spread step_s, samples_per_s;
  std::optional<Spread> evaluated_per_s;
  double mean_step_s = 0;  ///< mean over steps and ranks: what the rows' mean_s add up to
  std::vector<PhaseRow> rows;
  double flops = 0;  ///< of a step, all ranks
  WaitShare halo_wait, reduction_wait, input_wait;
  WaitShare exchange_wait;                                  ///< halo and reduction
  std::int64_t max_memory_bytes = 0, sum_memory_bytes = 0;  ///< peak of a process
  bool memory_of_this_run = true;                           ///< false: since the program's start
  std::vector<std::string> implementations;                 ///< of rank 0
  double last_loss = 0;
};

/// Collective over `world`. Throws Error when the loss is not finite.
BenchResult run_case(const Comm& world, const Options& options, const BenchPlan& plan,
                     const BenchCase& setting);

}  // namespace halomesh
