// SPDX-License-Identifier: Apache-2.0
// --affine-mismatch: what to do about labels that are not where their images are.
#pragma once

#include "runtime/data/dataset.hpp"
#include "runtime/mpi/mpi.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// Declares it for commands that read samples.
void add_misplacement_option(Options& options);

/// Warns of the misplacement() of a data set, or refuses it, as --affine-mismatch says: an Error on
/// every rank, or a warning of rank 0.
void heed_misplacement(const Comm& world, const Options& options, const Dataset& data);

}  // namespace halomesh
