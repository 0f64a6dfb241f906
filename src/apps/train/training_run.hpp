// SPDX-License-Identifier: Apache-2.0
// One training run on the ranks of a communicator: sets it up, records it and reports.
// Must not depend on what else the job runs.
#pragma once

#include "error.hpp"
#include "runtime/machine/binding.hpp"
#include "runtime/mpi/mpi.hpp"
#include "runtime/train/trainer.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// What the options of `train` say, but for the rate of gradients' sums and what run_training()
/// adds.
TrainerOptions trainer_options(const Options& options);

/// What a job has done for a run before it starts.
struct BeforeRun {
  double started_s = MPI_Wtime();  ///< when the job's time began, of --wall-limit
  StagedSplits* staged = nullptr;  ///< the data, which the run takes; null: it reads it itself
  MlperfLog* mllog = nullptr;      ///< its log, started, which the run takes; null: none yet
};

/// Trains as the options of `train` say, into its --out, from where an earlier run stopped. Prints
/// on rank 0. Collective over `world`.
TrainingResult run_training(const Comm& world, const Options& options, const RankBinding& binding,
                            const BeforeRun& before = {});

/// What to tell the user about a result that is TrainingEnd::kDiverged.
Error divergence_error(const TrainingResult& result);

}  // namespace halomesh
