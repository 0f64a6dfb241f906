// SPDX-License-Identifier: Apache-2.0
// The kind of values that a network reads, as its data have them.
#pragma once

#include "runtime/mpi/mpi.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// Sets the option of networks that read counts or other numbers, unless it is given, as the
/// samples of train/ are; leaves it where they cannot be read. Collective.
Options with_values_of_data(const Comm& world, Options options);

}  // namespace halomesh
