// SPDX-License-Identifier: Apache-2.0
// The communicator for tests of the runtime. This header only declares it: main() of the test
// program, which initialises and finalises MPI, defines it.
#pragma once

#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// A communicator of all ranks of the test run; valid as long as main() runs the tests.
const Comm& test_world();

}  // namespace halomesh
