// SPDX-License-Identifier: Apache-2.0
// The communicator for tests of the runtime; the test program's main() defines it.
// Declares only: initialising and finalising MPI belongs to that main().
#pragma once

#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// All ranks of the test run; valid as long as main() runs the tests.
const Comm& test_world();

}  // namespace halomesh
