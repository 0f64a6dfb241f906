// SPDX-License-Identifier: Apache-2.0
// Executes a TransferPlan between the ranks of a group: persistent messages, packed boxes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "partition/part_messages.hpp"
#include "partition/step_program.hpp"
#include "runtime/log/step_counts.hpp"
#include "runtime/mpi/in_flight.hpp"
#include "runtime/mpi/mpi.hpp"
#include "src/nn/pack.hpp"
#include "src/nn/tensor.hpp"
#include "trace.hpp"

namespace halomesh {

/// The fate of a received box: it replaces the values or is added to them.
enum class Combine { kCopy, kAdd };

/// The phases that an exchange records: starting and copying as `pack`, the rest of finish() as
/// `wait`, with the bytes received. The tensor's name must outlive the exchange.
struct ExchangeTrace {
  Trace* trace = nullptr;
  Phase pack = Phase::kHaloPack, wait = Phase::kHaloWait;
  std::string_view tensor;
};

/// The way in which the boxes of a step's exchange meet what is there.
Combine combine_of(const StepExchange& exchange, const ModelGeometry& geometry);

/// True if a message travels in place: its boxes are contiguous in the tensor. A message whose
/// boxes are added to the tensor never arrives in place.
bool fits_in_place(const PartMessage& message, const AnyConstView& tensor);

/// One tensor's plan on one rank; rank in the group = part. All ranks of the group create their
/// exchanges in the same order with the same tags, and call start() and finish() in the same order;
/// neither is a collective. One message goes to each peer, its boxes in plan order; received boxes
/// land inside the tensor. Results do not depend on the order of arrival.
class Exchange {
 public:
  /// `group` and the memory of `tensor`, which must be InFlight, must outlive this object. Messages
  /// that fit in place need no buffer.
  Exchange(const Comm& group, int tag, const TransferPlan& plan, Combine combine, AnyView tensor,
           const ExchangeTrace& trace = {});

  /// Bytes of the buffer that the exchange of `plan` has on `part`; the data of `tensor` are not
  /// read.
  static std::int64_t buffer_bytes(const TransferPlan& plan, int part, Combine combine,
                                   const AnyConstView& tensor);

  /// Posts the receives, packs and sends. The boxes sent must not change until finish().
  void start();
  /// Lets MPI make progress. Returns true once all messages have been sent and received.
  bool progress();
  /// Waits for all messages and unpacks the received ones. Does nothing without a preceding
  /// start().
  void finish();

  /// Bytes of tensor elements received and sent by this rank since construction.
  std::int64_t received_bytes() const { return counts_.received_bytes; }
  std::int64_t sent_bytes() const { return counts_.sent_bytes; }
  const HaloCounts& counts() const { return counts_; }
  /// The phase to which waiting for this exchange is charged.
  Phase phase() const { return trace_.wait; }
  /// True between start() and finish(); always false for an empty plan.
  bool started() const { return active_; }
  bool empty() const { return incoming_.empty() && outgoing_.empty(); }

 private:
  struct Message {
    int peer = 0;
    std::vector<Box> boxes;
    std::int64_t volume = 0;  // elements, all samples
    std::int64_t offset = 0;  // in the buffer, in bytes; unused when in place
    std::byte* in_place = nullptr;
    std::int64_t posted_ns = 0, arrived_ns = 0;  // only with a timeline
  };
  std::int64_t bytes(const Message& message) const {
    return message.volume * size_of(tensor_.type);
  }
  void add_messages(const TransferPlan& plan, bool incoming, int part, std::int64_t& offset);
  template <class Byte>
  void add_boxes(const Message& message, std::vector<DenseBox<Byte>>& boxes);
  void record(TimelineEvent::Kind kind, const Message& message);
  std::size_t receive_arrived(std::size_t first, TraceScope& scope);
  void unpack(std::size_t first, std::size_t end);
  Timeline* timeline() const {
    return trace_.trace != nullptr ? trace_.trace->timeline() : nullptr;
  }

  int tag_;
  Combine combine_;
  AnyView tensor_;
  ExchangeTrace trace_;
  std::vector<Message> incoming_, outgoing_;
  // The boxes of all messages that are not in place, in the order of the messages. For incoming
  // messages also the index of each one's first box, and the end.
  std::vector<DenseBox<std::byte>> packed_;
  std::vector<DenseBox<const std::byte>> received_;
  std::vector<std::size_t> received_from_;
  InFlight<AlignedBuffer<std::byte>> buffer_;
  Requests receives_, sends_;  // after the buffer, so that they wait before it is freed
  bool active_ = false;
  HaloCounts counts_;
};

}  // namespace halomesh
