// The options that an MLPerf log is made from, and what it says of the program and its machine.
// Knows nothing of the log's format or of training.
#pragma once

#include "runtime/mllog.hpp"
#include "runtime/mpi.hpp"
#include "src/apps/options.hpp"

namespace halomesh {

/// Declares --mllog, --cache-cleared and --submission-*.
void add_mlperf_options(Options& options);

/// A log that waits to be opened, with init_start in it; silent on ranks other than 0. Local.
MlperfLog begin_mlperf_log(const Comm& world, const Options& options);

/// Who runs what, where; the platform is that of rank 0's node unless an option names it.
/// Collective over `world`.
MlperfSubmission mlperf_submission(const Comm& world, const Options& options);

}  // namespace halomesh
