// SPDX-License-Identifier: Apache-2.0
// The main of the tests that run under a launcher: every rank runs all cases, and a case that fails
// on any rank fails. Owns the MPI session.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <mpi.h>

#include <cstdio>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>

#include "error.hpp"
#include "runtime/mpi/mpi.hpp"
#include "test/harness/case_results.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

const Comm* world = nullptr;  // set by main() while cases run

}  // namespace

const Comm& test_world() { return *world; }

}  // namespace halomesh

namespace halomesh::test {
namespace {

constexpr double kCombineSeconds = 240;

/// Makes `case_outcomes()` equal on all ranks: failed if failed on any. Collective. False if the
/// ranks ran different numbers of cases, so that no case can be trusted.
bool combine_cases(MPI_Comm comm) {
  std::vector<int>& outcomes = case_outcomes();
  long cases[2] = {static_cast<long>(outcomes.size()), -static_cast<long>(outcomes.size())};
  MPI_Allreduce(MPI_IN_PLACE, cases, 2, MPI_LONG, MPI_MIN, comm);
  if (cases[0] != -cases[1]) return false;
  MPI_Allreduce(MPI_IN_PLACE, outcomes.data(), static_cast<int>(outcomes.size()), MPI_INT, MPI_MAX,
                comm);
  return true;
}

/// Prints the messages of a rank other than 0 about a failed case, at once and in one piece.
void print_captured(int rank, std::ostringstream& captured) {
  const std::string text = "\n===== rank " + std::to_string(rank) + " =====\n" + captured.str();
  std::fwrite(text.data(), 1, text.size(), stderr);
  captured.str("");
}

/// Runs the cases on every rank and reports on rank 0. Returns the exit status, equal on all ranks.
int run_cases(int argc, char** argv, MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  std::ostringstream captured;
  doctest::Context context(argc, argv);
  context.setOption("no-colors", true);
  if (rank != 0) {
    context.setCout(&captured);
    on_failed_case() = [&captured, rank] { print_captured(rank, captured); };
  }
  const long left_out = count_skipped(argc, argv);
  const int status = context.run();
  if (context.shouldExit()) return status;

  const Watchdog guard("combining the ranks' results", kCombineSeconds, std::to_string(rank));
  const bool comparable = combine_cases(comm);
  int failed_somewhere = status != 0 ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &failed_somewhere, 1, MPI_INT, MPI_MAX, comm);
  const long failures = count_outcomes(kFailed);
  if (rank == 0 && comparable)
    print_tally(count_outcomes(kPassed), failures, count_outcomes(kSkipped) + left_out);
  if (rank == 0 && !comparable) {
    std::cout << "The ranks ran different numbers of cases.\n";
    print_tally(0, static_cast<long>(case_outcomes().size()) + 1, left_out);
  }
  return failures > 0 || failed_somewhere != 0 || !comparable ? 1 : 0;
}

}  // namespace
}  // namespace halomesh::test

int main(int argc, char** argv) {
  using namespace halomesh;
  std::optional<test::Watchdog> finalize;  // outlives the session, whose end it watches
  try {
    const MpiSession session(&argc, &argv);
    world = &session.world();
    MPI_Comm results = MPI_COMM_NULL;
    MPI_Comm_dup(session.world().handle(), &results);
    MPI_Comm_set_errhandler(results, MPI_ERRORS_ARE_FATAL);
    const int status = test::run_cases(argc, argv, results);
    MPI_Comm_free(&results);
    finalize.emplace("MPI_Finalize", test::kCombineSeconds);
    return status;
  } catch (const Error& error) {
    std::cerr << error.what() << "\n  " << error.hint() << '\n';
    return 1;
  }
}
