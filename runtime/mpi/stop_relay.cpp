// SPDX-License-Identifier: Apache-2.0
// Requests to stop that reach one rank: see stop_relay.hpp.
#include "runtime/mpi/stop_relay.hpp"

#include "runtime/mpi/in_flight.hpp"

namespace halomesh {
namespace {

constexpr int kStopTag = 0;

}  // namespace

StopRelay::StopRelay(const Comm& world) : comm_(world.dup()) { listen(); }

StopRelay::~StopRelay() {
  if (unwinding() || heard_ == MPI_REQUEST_NULL) return;
  MPI_Cancel(&heard_);
  MPI_Wait(&heard_, MPI_STATUS_IGNORE);
}

/// Posts receives: rank 0 gets one message from every other rank, these get one from rank 0.
void StopRelay::listen() {
  mpi_check(MPI_Irecv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, kStopTag, comm_.handle(), &heard_));
}

bool StopRelay::has_arrived() {
  int arrived = 0;
  if (heard_ != MPI_REQUEST_NULL) mpi_check(MPI_Test(&heard_, &arrived, MPI_STATUS_IGNORE));
  return arrived != 0 && ++received_ > 0;
}

bool StopRelay::poll(bool asked) {
  const bool is_first = comm_.rank() == 0;
  while (has_arrived())
    if (is_first) listen();
  const auto tell = [&](int rank) {
    mpi_check(MPI_Isend(nullptr, 0, MPI_BYTE, rank, kStopTag, comm_.handle(), told_.add()));
  };
  if (!has_told_ && (asked || (is_first && received_ > 0))) {
    has_told_ = true;
    if (!is_first) tell(0);
    for (int rank = 1; is_first && rank < comm_.size(); ++rank) tell(rank);
  }
  return received_ > 0;
}

void StopRelay::finish() {
  const bool is_first = comm_.rank() == 0;
  const std::int64_t told = comm_.sum(std::int64_t{!is_first && has_told_ ? 1 : 0});
  const bool by_first = comm_.max(std::int64_t{is_first && has_told_ ? 1 : 0}) > 0;
  for (const std::int64_t due = is_first ? told : by_first ? 1 : 0; received_ < due; ++received_) {
    mpi_check(MPI_Wait(&heard_, MPI_STATUS_IGNORE));
    if (is_first) listen();
  }
  told_.wait_all();
}

}  // namespace halomesh
