// SPDX-License-Identifier: Apache-2.0
// Cases on communicators of every size: see mpi_for_comms.hpp.
#include "test/harness/mpi_for_comms.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "test/harness/test_comm.hpp"
#include "test/harness/watchdog.hpp"

namespace halomesh {
namespace {

constexpr double kSecondsAfterThrow = 10;

struct Outcome {
  std::int64_t failures = 0, compared = 0;
};

// Sums over all ranks. Ranks sleep while they wait: on few cores, idle ranks would otherwise take
// time from computing ones.
Outcome sum_outcomes(const Comm& world, const Outcome& mine) {
  std::int64_t sums[2] = {mine.failures, mine.compared};
  MPI_Request request = MPI_REQUEST_NULL;
  mpi_check(MPI_Iallreduce(MPI_IN_PLACE, sums, 2, MPI_INT64_T, MPI_SUM, world.handle(), &request));
  for (int done = 0; done == 0;) {
    mpi_check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done == 0) std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return {sums[0], sums[1]};
}

// The text of the exception in progress.
std::string current_exception_text() {
  try {
    throw;
  } catch (const Error& error) {
    return fmt::format("{} ({})", error.what(), error.hint());
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

// False if the case threw: the other ranks may then wait for this one forever.
bool run_case(const std::string& operation, const Comm& comm, const CommCase& test,
              Findings& findings) {
  try {
    test(comm, findings);
    return true;
  } catch (...) {
    const std::string text = fmt::format("rank {} of {} in {}: {}", comm.rank(), comm.size(),
                                         operation, current_exception_text());
    findings.fail(text);
    std::fprintf(stderr, "\n%s\n", text.c_str());
    std::fflush(stderr);
    return false;
  }
}

}  // namespace

void for_comms(const std::string& operation, const std::vector<int>& sizes,
               const CommCase& comm_case, double limit_s) {
  const Comm& world = test_world();
  int runs = 0;
  for (const int size : sizes) {
    if (size > world.size()) continue;
    const std::string name = fmt::format("{} on {} of {} ranks", operation, size, world.size());
    const test::Watchdog watchdog('"' + name + '"', limit_s);
    const bool member = world.rank() >= world.size() - size;
    const Comm comm = world.split(member ? 0 : -1, world.rank());
    Findings findings;
    std::optional<test::Watchdog> others;
    if (member && !run_case(name, comm, comm_case, findings))
      others.emplace("waiting for the others after an exception in \"" + name + '"',
                     kSecondsAfterThrow);
    const auto mine = static_cast<std::int64_t>(findings.failures().size());
    const Outcome all = sum_outcomes(world, {mine, findings.compared()});
    for (const std::string& failure : findings.failures())
      FAIL_CHECK(fmt::format("{}, rank {}: {}", name, comm.rank(), failure));
    INFO(name);
    CHECK(all.failures == 0);
    CHECK(all.compared > 0);
    ++runs;
    if (all.failures != 0 || all.compared == 0) return;
  }
  CHECK(runs > 0);
}

void for_comms(const std::string& operation, const CommCase& comm_case) {
  for_comms(operation, {1, 2, 3, 4, 5, 6}, comm_case);
}

std::vector<PartGrid> grids_of(std::int64_t parts) {
  std::vector<PartGrid> grids;
  for (std::int64_t d = 1; d <= parts; ++d)
    for (std::int64_t h = 1; h <= parts; ++h)
      if (parts % (d * h) == 0) grids.push_back({d, h, parts / (d * h)});
  return grids;
}

}  // namespace halomesh
