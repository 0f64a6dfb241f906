// SPDX-License-Identifier: Apache-2.0
// Messages of bounded size and number: see piece_messages.hpp.
#include "runtime/mpi/piece_messages.hpp"

#include <algorithm>
#include <utility>

#include "narrow.hpp"
#include "runtime/mpi/interruptible_waits.hpp"

namespace halomesh {
namespace {

/// The number of receives posted in advance.
constexpr std::int64_t kReceives = 4;

}  // namespace

PieceMessages::PieceMessages(const Comm& group, std::int64_t piece_bytes, std::int64_t arriving,
                             std::int64_t sending, Arrival arrival)
    : group_(group),
      arrival_(std::move(arrival)),
      send_messages_(static_cast<std::size_t>(sending)),
      receive_messages_(static_cast<std::size_t>(std::min(kReceives, arriving))),
      sends_(*send_messages_),
      receives_(*receive_messages_),
      to_post_(arriving) {
  for (std::vector<Message>* messages : {&sends_, &receives_})
    for (Message& message : *messages) message.bytes.resize(static_cast<std::size_t>(piece_bytes));
  for (Message& message : receives_) post(message);
}

PieceMessages::~PieceMessages() {
  if (unwinding()) return;
  for (Message& message : receives_)
    if (message.request != MPI_REQUEST_NULL) {
      MPI_Cancel(&message.request);
      MPI_Wait(&message.request, MPI_STATUS_IGNORE);
    }
  for (Message& message : sends_) MPI_Wait(&message.request, MPI_STATUS_IGNORE);
}

void PieceMessages::post(Message& message) {
  if (to_post_ == 0) return;
  mpi_check(MPI_Irecv(message.bytes.data(), narrow<int>(std::ssize(message.bytes)), MPI_BYTE,
                      MPI_ANY_SOURCE, 0, group_.handle(), &message.request));
  --to_post_;
  ++pending_;
}

PieceMessages::Buffer PieceMessages::take_buffer() {
  while (true) {
    for (Buffer i = 0; i < sends_.size(); ++i) {
      Message& message = sends_[i];
      if (message.taken) continue;
      int done = 0;
      mpi_check(MPI_Test(&message.request, &done, MPI_STATUS_IGNORE));
      if (done == 0) continue;
      message.taken = true;
      return i;
    }
    progress();
  }
}

void PieceMessages::send(Buffer buffer, std::size_t count, int destination) {
  Message& message = sends_[buffer];
  mpi_check(MPI_Isend(message.bytes.data(), narrow<int>(count), MPI_BYTE, destination, 0,
                      group_.handle(), &message.request));
  message.taken = false;
}

// Tests receives in the order of posting, in which they match the messages of one sender.
void PieceMessages::progress() {
  InterruptibleWaits::check();
  while (pending_ > 0) {
    Message& message = receives_[oldest_];
    int arrived = 0, count = 0;
    MPI_Status status;
    mpi_check(MPI_Test(&message.request, &arrived, &status));
    if (arrived == 0) return;
    mpi_check(MPI_Get_count(&status, MPI_BYTE, &count));
    --pending_;
    oldest_ = (oldest_ + 1) % receives_.size();
    arrival_(status.MPI_SOURCE, std::span(message.bytes).first(static_cast<std::size_t>(count)));
    post(message);
  }
}

void PieceMessages::finish_sends() {
  for (Message& message : sends_)
    for (int done = 0; done == 0;) {
      progress();
      mpi_check(MPI_Test(&message.request, &done, MPI_STATUS_IGNORE));
    }
}

}  // namespace halomesh
