// SPDX-License-Identifier: Apache-2.0
// Checks a cut layer over MPI: each rank runs one part, with the serial reference of the in-process
// check.
#pragma once

#include "runtime/mpi/mpi.hpp"
#include "test/harness/layer_check.hpp"
#include "test/harness/mpi_for_comms.hpp"

namespace halomesh {

/// Collective over `comm`, whose size is that of the case's part grid; part = rank. Moves boxes by
/// Exchange, then joins the results of all ranks and judges them on every rank. The report is the
/// same on every rank except for forbidden writes of this rank's part.
CheckReport check_layer(const Comm& comm, const LayerCase& test);

/// Adds check_layer() to `findings`; fails if a comparison compared no elements. Returns the number
/// of elements moved between ranks.
std::int64_t expect_layer(const Comm& comm, const LayerCase& test, Findings& findings);

}  // namespace halomesh
