// Messages of bounded size between the ranks of a group, a bounded number of them under way.
// Knows nothing of what they hold.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/mpi.hpp"

namespace halomesh {

/// Sends and receives pieces. Messages of one rank arrive in their order. Whoever waits for a free
/// buffer takes what arrives meanwhile, so that ranks that all send do not wait for each other.
class PieceMessages {
 public:
  /// Takes a piece that has arrived; the bytes are valid during the call.
  using Arrival = std::function<void(int source, std::span<const std::byte> bytes)>;

  /// `arriving` messages of up to `piece_bytes` come in all; up to `sending` are under way from
  /// here or being filled. `group`, on which there is no other traffic of messages, must outlive
  /// this object.
  PieceMessages(const Comm& group, std::int64_t piece_bytes, std::int64_t arriving,
                std::int64_t sending, Arrival arrival);
  PieceMessages(const PieceMessages&) = delete;
  PieceMessages& operator=(const PieceMessages&) = delete;
  /// Gives up messages that have not arrived. While an exception unwinds, which ends all ranks,
  /// those under way from here are left to MPI with their memory, as their receivers may be gone.
  ~PieceMessages();

  /// One of the buffers for sending.
  using Buffer = std::size_t;
  /// Waits for one that is free.
  Buffer take_buffer();
  std::span<std::byte> bytes_of(Buffer buffer) { return sends_[buffer].bytes; }
  /// Sends the first `count` bytes of a buffer, which is free again when they have gone.
  void send(Buffer buffer, std::size_t count, int destination);

  /// Hands on what has arrived, without waiting.
  void progress();
  /// Waits until everything sent from here has gone, and takes what arrives meanwhile.
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
  std::vector<Message> sends_, receives_;
  std::int64_t to_post_;      // messages that no receive has been posted for
  std::int64_t pending_ = 0;  // receives that have been posted
  std::size_t oldest_ = 0;    // of them
};

}  // namespace halomesh
