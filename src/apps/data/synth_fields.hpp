// SPDX-License-Identifier: Apache-2.0
// Synthetic data sets of images with labels: volumes of organs and lesions, maps of the atmosphere.
#pragma once

#include "runtime/mpi/mpi.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// Makes the data set of `synth --kind volumes` (an archive) or `--kind climate` (the DeepCAM
/// benchmark's files) and returns the exit code. Samples are divided over the ranks; the bytes do
/// not depend on their number. Collective. Throws UsageError for options of other kinds.
int synthesise_fields(const Comm& world, const Options& options);

}  // namespace halomesh
