// SPDX-License-Identifier: Apache-2.0
// Collective errors: if work fails on one rank, all ranks throw its Error.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// Runs `work` on rank 0 and returns its text on every rank; throws on every rank whatever it
/// threw. Collective.
std::string on_first_rank(const Comm& comm, const std::function<std::string()>& work);

/// Runs `work` on every rank and returns all texts on every rank, in rank order; throws on every
/// rank the Error of the first rank whose work threw one. Collective.
std::vector<std::string> on_every_rank(const Comm& comm, const std::function<std::string()>& work);

/// Runs `work` on every rank; throws on every rank the Error of the first rank whose work threw
/// one. Collective.
void on_all_ranks(const Comm& comm, const std::function<void()>& work);

/// The same for long work, which calls `others_failed` from time to time and returns when that is
/// true, so that all ranks stop soon after one has failed. Collective.
void run_with_collective_errors(
    const Comm& comm, const std::function<void(const std::function<bool()>& others_failed)>& work);

}  // namespace halomesh
