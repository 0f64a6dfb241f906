// One yes or no of all ranks: see agreement.hpp.
#include "runtime/agreement.hpp"

#include <exception>
#include <utility>

namespace halomesh {

Agreement::~Agreement() {
  if (request_ == MPI_REQUEST_NULL) return;
  if (std::uncaught_exceptions() > 0)
    any_.release();  // NOLINT: MPI may still write to it
  else
    MPI_Wait(&request_, MPI_STATUS_IGNORE);
}

void Agreement::ask(bool mine) {
  *any_ = mine ? 1 : 0;
  mpi_check(
      MPI_Iallreduce(MPI_IN_PLACE, any_.get(), 1, MPI_INT, MPI_MAX, comm_.handle(), &request_));
}

void Agreement::progress() {
  int done = 0;
  mpi_check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE));
}

bool Agreement::answer() {
  mpi_check(MPI_Wait(&request_, MPI_STATUS_IGNORE));
  return std::exchange(*any_, 0) != 0;
}

}  // namespace halomesh
