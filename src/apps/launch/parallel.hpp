// SPDX-License-Identifier: Apache-2.0
// Runs a command on all ranks; a failure on one ends all, with one message.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>

#include "runtime/mpi/mpi.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// How the program ends.
enum ExitCode : int {
  kExitDone = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitStopped = 75  ///< stopped cleanly before the wall limit: run again to resume
};

/// Makes the MPI session, reads `options` on every rank and calls body(world), whose result is
/// returned. An exception ends every rank of the job, with kExitUsage for a UsageError and
/// kExitFailed otherwise. With --help it prints the page once, without MPI. May be called once per
/// process. Several ranks often fail alike at the same time: rank 0 reports for all, because it
/// reports at once and thereby ends the others, which wait a little.
int run_parallel(int argc, char** argv, Options& options,
                 const std::function<int(const Comm& world)>& body);

/// What to tell the user about an exception, and how the program ends.
struct Failure {
  std::string text;  ///< lines "halomesh: error: WHAT" and "  hint: HINT"
  int exit_code = kExitFailed;
};
/// `rank` is named unless it is 0.
Failure describe(const std::exception_ptr& exception, int rank);

/// The ranks that the launcher says it started and which of them this is; read from the environment
/// by `variable` (std::getenv or a test's). size 0: it does not say.
struct Launch {
  std::int64_t size = 0, rank = 0;
};
Launch read_launch(const std::function<const char*(const char*)>& variable);

}  // namespace halomesh
