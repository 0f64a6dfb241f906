// SPDX-License-Identifier: Apache-2.0
// Runs a command on all ranks; a failure on one rank ends all, with one message.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>

#include "runtime/mpi/mpi.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// Exit codes.
enum ExitCode : int {
  kExitDone = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitStopped = 75  ///< stopped cleanly before the wall limit: run again to resume
};

/// Starts the MPI session, parses `options` on every rank and returns the result of body(world). An
/// exception ends every rank of the job, with kExitUsage for a UsageError and kExitFailed
/// otherwise. With --help, prints the help page once, without MPI. May be called once per process.
/// Several ranks often fail with one error at the same time: the others wait a little, so that rank
/// 0 reports first and thereby ends them.
int run_parallel(int argc, char** argv, Options& options,
                 const std::function<int(const Comm& world)>& body);

/// The user's message about an exception, and the exit code.
struct Failure {
  std::string text;  ///< the lines "halomesh: error: WHAT" and "  hint: HINT"
  int exit_code = kExitFailed;
};
/// Describes an exception; `rank` is named unless it is 0.
Failure describe(const std::exception_ptr& exception, int rank);

/// The number of ranks that the launcher reports, and this rank's number, read from the environment
/// by `variable` (std::getenv or a test's). size 0: unknown.
struct Launch {
  std::int64_t size = 0, rank = 0;
};
Launch read_launch(const std::function<const char*(const char*)>& variable);

}  // namespace halomesh
