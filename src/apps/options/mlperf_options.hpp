// SPDX-License-Identifier: Apache-2.0
// The options of the MLPerf log and of the submission that it describes.
#pragma once

#include "runtime/log/mllog.hpp"
#include "runtime/mpi/mpi.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// Declares --mllog, --cache-cleared and --submission-*.
void add_mlperf_options(Options& options);

/// Creates a log, not opened yet, with init_start in it and the keys of the network's benchmark; it
/// writes nothing on ranks other than 0. Collective over `world`.
MlperfLog begin_mlperf_log(const Comm& world, const Options& options);

/// Logs the submission's entries, with the platform of rank 0's node unless an option names it, and
/// run_start, which starts the clock. Collective over `world`.
void start_mlperf_run(const Comm& world, const Options& options, const MlperfTraining& training,
                      MlperfLog& log);

}  // namespace halomesh
