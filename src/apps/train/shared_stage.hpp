// SPDX-License-Identifier: Apache-2.0
// The stage of several training runs of a job that use the same data on the same mesh.
#pragma once

#include <functional>
#include <optional>

#include "runtime/log/metrics.hpp"
#include "runtime/log/mllog.hpp"
#include "runtime/mpi/mpi.hpp"
#include "runtime/stage/stager.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

struct SharedStage {
  StagedSplits splits;  ///< this rank's blocks, for one run
  StageRecord record;   ///< sums over the job
  MlperfLog mllog;      ///< for one run, whose clock started before the data was opened
};

/// Reads the data of --data once for all runs of `job`, whose groups of consecutive ranks are like
/// `group`, and stages it in --stage-dir; reports progress on rank 0. `options` are those of this
/// rank's run. Empty if `must_stop` was true on some rank. Collective over `job`.
std::optional<SharedStage> stage_for_runs(const Comm& job, const Comm& group,
                                          const Options& options,
                                          const std::function<bool()>& must_stop);

}  // namespace halomesh
