// SPDX-License-Identifier: Apache-2.0
// A logical OR over all ranks holds up no rank until the result is needed.
#include "runtime/mpi/nonblocking_any.hpp"

#include <doctest/doctest.h>

#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

TEST_CASE("NonblockingAny: the result is true on all ranks if one passes true, every time") {
  const Comm& world = test_world();
  NonblockingAny any(world);
  CHECK_FALSE(any.take_result());  // nothing was started
  for (int yes = -1; yes < world.size(); ++yes) {
    any.start(world.rank() == yes);
    any.progress();
    CHECK(any.take_result() == (yes >= 0));
    CHECK_FALSE(any.take_result());
  }
}

TEST_CASE("NonblockingAny: starting does not wait for ranks that have not started") {
  const Comm& world = test_world();
  NonblockingAny any(world);
  // The last rank starts only after all others have gone on: a rank that waited would hang.
  const int last = world.size() - 1;
  if (world.rank() == last)
    for (int rank = 0; rank < last; ++rank)
      mpi_check(MPI_Recv(nullptr, 0, MPI_BYTE, rank, 0, world.handle(), MPI_STATUS_IGNORE));
  any.start(world.rank() == last);
  any.progress();
  if (world.rank() != last) mpi_check(MPI_Send(nullptr, 0, MPI_BYTE, last, 0, world.handle()));
  CHECK(any.take_result());
  // The destructor waits for an operation whose result is not taken.
  any.start(false);
}

}  // namespace
}  // namespace halomesh
