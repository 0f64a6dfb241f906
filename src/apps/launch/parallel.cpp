// SPDX-License-Identifier: Apache-2.0
// Runs a command on all ranks; a failure on one rank ends all: see parallel.hpp.
#include "src/apps/launch/parallel.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "printable.hpp"
#include "runtime/mpi/node_flag.hpp"
#include "runtime/mpi/nonblocking_any.hpp"
#include "runtime/posix/memory_needs.hpp"
#include "simulation.hpp"
#include "src/nn/kernels/isa_kernels.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

const char* environment(const char* name) {
  return std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
}

std::string message(const std::string& what, const std::string& hint, int rank) {
  std::string text = "halomesh: error";
  if (rank != 0) text += fmt::format(" (rank {})", rank);
  text += ": " + what + "\n";
  if (!hint.empty()) text += "  hint: " + hint + "\n";
  return printable(text);
}

/// Prints in one write, so that lines of different ranks are not interleaved.
void print_error(const std::string& text) {
  std::cout.flush();
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

/// Detects a launcher that does not match the MPI library: every rank is then alone in its MPI
/// world.
void check_launch(const Comm& world, const Launch& launch) {
  if (world.size() > 1 || launch.size <= 1) return;
  throw Error(fmt::format("the launcher started {} ranks, but each is alone in its own MPI world",
                          launch.size),
              fmt::format("use the launcher of this MPI library ({}): its own mpirun or mpiexec, "
                          "or srun --mpi=pmix (srun --mpi=list shows what this cluster has)",
                          MpiSession::library_version()));
}

/// MPI libraries crash, or end the process with messages of their own, where memory is short. The
/// launcher ends all ranks with the first one, whose message then suffices.
void require_memory_of_mpi(const Launch& launch) {
  if constexpr (simulation::kOn) return;
  constexpr std::int64_t kBuffers = 16'000'000, kShared = 64'000'000;
  try {
    require_memory("MPI", 2 * thread_stack_bytes() + kBuffers, kShared);
  } catch (const Error&) {
    if (launch.rank > 0) std::this_thread::sleep_for(std::chrono::seconds(5));
    throw;
  }
}

/// Ends the job's ranks; returns only if this rank is alone in its world. If several ranks fail at
/// once, the first of each node prints its error and the others wait to be ended. Only the first
/// node prints, unless it takes longer than 300 ms to end the others. It waits 200 ms for them, so
/// that all ranks can clean up if all have failed.
int end_all_ranks(const MpiSession& session, const Launch& launch, const Failure& failure,
                  const NodeFlag& said, NonblockingAny& all_failed) {
  if constexpr (simulation::kOn) {  // all ranks are in this process
    print_error(failure.text);
    std::_Exit(failure.exit_code);
  }
  using std::chrono::milliseconds;
  const Comm& world = session.world();
  const auto wait = [&](milliseconds time, bool for_others) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (!(all_failed.progress() && for_others) && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(milliseconds(1));
  };
  all_failed.start(true);
  if (world.rank() != 0) wait(milliseconds(300 + 50 * std::min(world.rank(), 40)), false);
  if (said.get()->exchange(1) != 0) {
    std::this_thread::sleep_for(std::chrono::seconds(5));
    session.abort(failure.exit_code);
  }
  // If the launcher gave each rank its own world, they all fail with one error.
  if (world.size() > 1 || launch.rank == 0) print_error(failure.text);
  if (world.rank() == 0) wait(milliseconds(200), true);
  if (world.size() > 1) session.abort(failure.exit_code);
  return failure.exit_code;
}

}  // namespace

Failure describe(const std::exception_ptr& thrown, int rank) {
  try {
    std::rethrow_exception(thrown);
  } catch (const UsageError& error) {
    return {message(error.what(), error.hint(), rank), kExitUsage};
  } catch (const std::exception& exception) {
    const Error error = as_error(exception);
    return {message(error.what(), error.hint(), rank), kExitFailed};
  } catch (...) {
    return {message("an exception of unknown type", "", rank), kExitFailed};
  }
}

Launch read_launch(const std::function<const char*(const char*)>& variable) {
  struct Names {
    const char *size, *rank;
  };
  // A launcher's own variables take precedence over those of the surrounding job.
  for (const Names& names :
       {Names{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, Names{"PMI_SIZE", "PMI_RANK"},
        Names{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}) {
    const char* size = variable(names.size);
    const char* rank = variable(names.rank);
    if (size == nullptr || rank == nullptr) continue;
    const auto s = from_text<std::int64_t>(size), r = from_text<std::int64_t>(rank);
    if (s && r) return {*s, *r};
  }
  return {};
}

int run_parallel(int argc, char** argv, Options& options,
                 const std::function<int(const Comm& world)>& body) {
  const Launch launch = read_launch(environment);
  std::exception_ptr misread;  // printed once the MPI world exists
  try {
    options.parse(argc, argv);
  } catch (...) {
    misread = std::current_exception();
  }
  if (options.help_wanted()) {
    if (launch.rank == 0) std::cout << options.help();
    return kExitDone;
  }
  share_heap_where_limited();
  require_memory_of_mpi(launch);
  MpiSession session(&argc, &argv);
  const Comm& world = session.world();
  const NodeFlag said(world.node());
  const Comm farewell = world.dup();
  NonblockingAny all_failed(farewell);
  try {
    check_launch(world, launch);
    if (misread) std::rethrow_exception(misread);
    if (world.rank() == 0) print_notes(std::cerr, options);
    (void)isa_kernels();  // refuses HALOMESH_ISA here, because no parallel region could catch it
    return body(world);
  } catch (...) {
    return end_all_ranks(session, launch, describe(std::current_exception(), world.rank()), said,
                         all_failed);
  }
}

}  // namespace halomesh
