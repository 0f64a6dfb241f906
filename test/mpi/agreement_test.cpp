// A question to all ranks holds up nobody until the answer is wanted.
#include "runtime/agreement.hpp"

#include <doctest/doctest.h>

#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

TEST_CASE("agreement: any rank's yes is the answer on all, question by question") {
  const Comm& world = test_world();
  Agreement agreement(world);
  CHECK_FALSE(agreement.answer());  // of no question
  for (int yes = -1; yes < world.size(); ++yes) {
    agreement.ask(world.rank() == yes);
    agreement.progress();
    CHECK(agreement.answer() == (yes >= 0));
    CHECK_FALSE(agreement.answer());
  }
}

TEST_CASE("agreement: asking does not wait for ranks that have not asked") {
  const Comm& world = test_world();
  Agreement agreement(world);
  // The last rank asks only when all others have gone on: those who waited would do so for ever.
  const int last = world.size() - 1;
  if (world.rank() == last)
    for (int rank = 0; rank < last; ++rank)
      mpi_check(MPI_Recv(nullptr, 0, MPI_BYTE, rank, 0, world.handle(), MPI_STATUS_IGNORE));
  agreement.ask(world.rank() == last);
  agreement.progress();
  if (world.rank() != last) mpi_check(MPI_Send(nullptr, 0, MPI_BYTE, last, 0, world.handle()));
  CHECK(agreement.answer());
  // An open question is closed by the destructor.
  agreement.ask(false);
}

}  // namespace
}  // namespace halomesh
