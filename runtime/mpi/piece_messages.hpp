// SPDX-License-Identifier: Apache-2.0
// Messages of bounded size between the ranks of a group, with a bounded number in flight.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/mpi/in_flight.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// Sends and receives pieces. Messages of one rank arrive in order. A rank that waits for a free
/// buffer processes arriving messages meanwhile, so that ranks that all send do not deadlock.
class PieceMessages {
 public:
  /// Takes an arrived piece; the bytes are valid during the call.
  using Arrival = std::function<void(int source, std::span<const std::byte> bytes)>;

  /// `arriving` messages of up to `piece_bytes` arrive in total; up to `sending` are being filled
  /// or in flight from this rank. `group`, on which nothing else may send messages, must outlive
  /// this object.
  PieceMessages(const Comm& group, std::int64_t piece_bytes, std::int64_t arriving,
                std::int64_t sending, Arrival arrival);
  PieceMessages(const PieceMessages&) = delete;
  PieceMessages& operator=(const PieceMessages&) = delete;
  /// Cancels receives and waits for sends, unless an exception unwinds (see in_flight.hpp).
  ~PieceMessages();

  /// One of the buffers for sending.
  using Buffer = std::size_t;
  /// Waits for a free buffer.
  Buffer take_buffer();
  std::span<std::byte> bytes_of(Buffer buffer) { return sends_[buffer].bytes; }
  /// Sends the first `count` bytes of a buffer, which is free again when they have been sent.
  void send(Buffer buffer, std::size_t count, int destination);

  /// Passes on the pieces that have arrived, without waiting.
  void progress();
  /// Waits until all pieces of this rank have been sent, and processes arriving ones meanwhile.
  void finish_sends();

 private:
  struct Message {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
    bool taken = false;  // being filled
  };
  void post(Message& message);

  const Comm& group_;
  Arrival arrival_;
  InFlight<std::vector<Message>> send_messages_, receive_messages_;
  std::vector<Message>&sends_, &receives_;
  std::int64_t to_post_;      // messages without a posted receive
  std::int64_t pending_ = 0;  // receives that have been posted
  std::size_t oldest_ = 0;    // the oldest of these
};

}  // namespace halomesh
