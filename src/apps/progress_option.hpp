// The option --progress-thread: whether a thread of each rank looks after messages, and where.
// Knows no command.
#pragma once

#include <memory>

#include "runtime/binding.hpp"
#include "runtime/progress_thread.hpp"
#include "src/apps/options.hpp"

namespace halomesh {

void add_progress_option(Options& options);

/// What the option asks of MPI: for run_parallel().
ThreadLevel thread_level(const Options& options);

/// Starts the thread that the option asks for, and notes it in `binding`; none when it is off.
/// Throws UsageError when there is no processor for it. Collective over `world`.
std::unique_ptr<ProgressThread> start_progress_thread(const Comm& world, const Options& options,
                                                      RankBinding& binding);

}  // namespace halomesh
