// SPDX-License-Identifier: Apache-2.0
// `train --instances`: many models trained at once.
#pragma once

#include "runtime/mpi/mpi.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// Trains --instances models, each on its own group of ranks and into its own directory under
/// --out, prints a table and writes OUT/instances.json. Returns an exit code; throws an Error that
/// names the instances that failed, after the others have ended. Collective over `world`.
int train_instances(const Comm& world, const Options& options);

}  // namespace halomesh
