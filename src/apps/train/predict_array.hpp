// SPDX-License-Identifier: Apache-2.0
// The command `predict` on a NumPy array instead of a data set.
#pragma once

#include "runtime/mpi/mpi.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// Whether --data names an array.
bool reads_array(const Options& options);

/// Runs the network of --network or --checkpoint on the samples of --data and writes its outputs to
/// --out, and those of further outputs beside it. Collective over `world`. Returns an ExitCode.
int predict_array(const Comm& world, const Options& options);

}  // namespace halomesh
