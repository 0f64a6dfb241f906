// SPDX-License-Identifier: Apache-2.0
// Collective errors: if work fails on one rank, all ranks throw its Error.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "error.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// Runs `work` on rank 0 and returns its text on every rank; if it throws, its exception is thrown
/// on every rank. Collective.
std::string on_first_rank(const Comm& comm, const std::function<std::string()>& work);

/// Runs `work` on every rank and returns all texts on every rank, in rank order; throws on every
/// rank the Error of the first rank whose work threw one. Collective.
std::vector<std::string> on_every_rank(const Comm& comm, const std::function<std::string()>& work);

/// Runs `work` on every rank; throws on every rank the Error of the first rank whose work threw
/// one. Collective.
void on_all_ranks(const Comm& comm, const std::function<void()>& work);

/// Runs long work likewise. The work calls `others_failed` from time to time and returns once that
/// is true, so that all ranks stop soon after one has failed. Collective.
void run_with_collective_errors(
    const Comm& comm, const std::function<void(const std::function<bool()>& others_failed)>& work);

/// The reason why work failed; the same on every rank.
struct ContainedFailure {
  Error error;
  bool is_usage = false;  ///< a UsageError
};

/// Runs `work`, which may be a whole run on `comm` alone, and returns how it failed; empty if it
/// did not, on any rank. If it fails on one rank, the others leave it at their next wait (see
/// InterruptibleWaits); the failure is that of the first rank that failed by itself. Requests that
/// the work leaves in flight are leaked (see in_flight.hpp). A rank whose process ends still ends
/// the job. Collective.
std::optional<ContainedFailure> contained_failure(const Comm& comm,
                                                  const std::function<void()>& work);

}  // namespace halomesh
