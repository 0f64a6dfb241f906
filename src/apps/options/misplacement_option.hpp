// SPDX-License-Identifier: Apache-2.0
// The option --affine-mismatch: how to treat labels that are not at their images.
#pragma once

#include "runtime/data/dataset.hpp"
#include "runtime/mpi/mpi.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// Declares the option for commands that read samples.
void add_misplacement_option(Options& options);

/// Reports the misplacement() of a data set as --affine-mismatch says: by an Error on every rank,
/// or by a warning on rank 0.
void heed_misplacement(const Comm& world, const Options& options, const Dataset& data);

}  // namespace halomesh
