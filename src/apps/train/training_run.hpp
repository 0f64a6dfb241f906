// SPDX-License-Identifier: Apache-2.0
// One training run on the ranks of a communicator: sets it up, records it and reports.
// Must not depend on the job's other work.
#pragma once

#include "error.hpp"
#include "models/network.hpp"
#include "runtime/machine/binding.hpp"
#include "runtime/mpi/mpi.hpp"
#include "runtime/train/trainer.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// The facts about a training of `spec` with these options in the MLPerf log.
MlperfTraining mlperf_training(const TrainerOptions& trainer, const NetworkSpec& spec,
                               const Options& options);

/// Work that a job has done for a run before it starts.
struct BeforeRun {
  double started_s = MPI_Wtime();  ///< the time from which --wall-limit counts
  /// Staged data that the run takes over; null: it stages or reads the data itself.
  StagedSplits* staged = nullptr;
  /// A log with run_start, which the run takes over; null: it starts one.
  MlperfLog* mllog = nullptr;
  /// True if no work follows this run in the process, so that later stop signals are ignored.
  bool is_last = false;
};

/// Trains as the options of `train` say, into its --out, from where an earlier run stopped. Prints
/// on rank 0. Collective over `world`.
TrainingResult run_training(const Comm& world, const Options& options, const RankBinding& binding,
                            const BeforeRun& before = {});

/// The user's error for a result with TrainingEnd::kDiverged.
Error divergence_error(const TrainingResult& result);

}  // namespace halomesh
