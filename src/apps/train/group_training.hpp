// SPDX-License-Identifier: Apache-2.0
// One of several training runs of a job, each on a group of its ranks: if it fails, the others
// continue. Must not depend on why there are several.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "error.hpp"
#include "runtime/machine/binding.hpp"
#include "runtime/mpi/mpi.hpp"
#include "src/apps/options/options.hpp"
#include "src/apps/train/group_result.hpp"
#include "src/apps/train/training_run.hpp"

namespace halomesh {

/// One error for all runs that failed: "2 of 4 instances failed: NAME, NAME: WHAT; NAME: WHAT",
/// with few names for each cause. `what` is the plural noun for the runs; `failed` has one or more.
struct NamedFailure {
  std::string name;
  Error error;
};
Error joint_failure(const std::vector<NamedFailure>& failed, std::int64_t total,
                    const std::string& what);

/// Splits `world` into groups of `ranks_each` consecutive ranks and returns this rank's, number
/// `world.rank() / ranks_each`. Collective over `world`, whose size `ranks_each` divides.
Comm group_of(const Comm& world, std::int64_t ranks_each);

/// Returns `value` of this option if it divides the ranks of `world`; otherwise throws UsageError
/// with the values that do.
std::int64_t divisor_of_ranks(const Comm& world, const std::string& option, std::int64_t value);

/// Runs run_training() on `group`, with its output in OUT/output.txt, and writes OUT/result.json
/// (see to_json()). A failure of this run is returned, not thrown. Collective over `group`.
GroupResult train_in_group(const Comm& group, const Options& options, const RankBinding& binding,
                           const BeforeRun& before = {});

}  // namespace halomesh
