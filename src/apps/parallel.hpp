// How a command runs on all ranks and how any failure ends all of them, said once.
// Knows no command.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>

#include "runtime/mpi.hpp"
#include "src/apps/options.hpp"

namespace halomesh {

/// How the program ends.
enum ExitCode : int {
  kExitDone = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitStopped = 75  ///< stopped cleanly before the wall limit: run again to resume
};

/// Makes the MPI session, reads `options` on every rank and calls body(world), whose result is
/// returned. Whatever is thrown ends every rank of the job, with kExitUsage for a UsageError and
/// kExitFailed otherwise. With --help it prints the page once, without MPI. Allowed once a process.
/// Several ranks often meet the same error at once: rank 0 then speaks for all, because it speaks
/// at once and thereby ends the others, which wait a little. `level`: what the options, once read,
/// ask of MPI; by default that one thread calls it.
int run_parallel(int argc, char** argv, Options& options,
                 const std::function<int(const Comm& world)>& body,
                 const std::function<ThreadLevel(const Options&)>& level = {});

/// What to tell the user about an exception, and how the program ends.
struct Failure {
  std::string text;  ///< lines "halomesh: error: WHAT" and "  cure: HINT"
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
