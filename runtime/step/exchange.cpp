// SPDX-License-Identifier: Apache-2.0
// Executes a TransferPlan between ranks: see exchange.hpp.
#include "runtime/step/exchange.hpp"

#include <utility>

#include "narrow.hpp"
#include "simulation.hpp"

namespace halomesh {
namespace {

constexpr const char* kTooLarge = "cut the sample into more parts or use a smaller batch";

// Each message starts on a cache line of its own.
std::int64_t round_up(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Combine combine_of(const StepExchange& exchange, const ModelGeometry& geometry) {
  const bool adds = exchange.kind == StepExchange::Kind::kPartialSums ||
                    (exchange.kind == StepExchange::Kind::kReturnDiff &&
                     !geometry.tensors()[exchange.tensor].whole_diffs);
  return adds ? Combine::kAdd : Combine::kCopy;
}

bool fits_in_place(const PartMessage& message, const AnyConstView& tensor) {
  return message.boxes.size() == 1 && tensor.batch == 1 && tensor.is_dense(message.boxes.front());
}

Exchange::Exchange(const Comm& group, int tag, const TransferPlan& plan, Combine combine,
                   AnyView tensor, const ExchangeTrace& trace)
    : tag_(tag), combine_(combine), tensor_(tensor), trace_(trace) {
  std::int64_t offset = 0;
  add_messages(plan, true, group.rank(), offset);
  add_messages(plan, false, group.rank(), offset);
  *buffer_ = AlignedBuffer<std::byte>(offset);
  for (const Message& m : outgoing_)
    if (m.in_place == nullptr) add_boxes(m, packed_);
  for (const Message& m : incoming_) {
    received_from_.push_back(received_.size());
    if (m.in_place == nullptr) add_boxes(m, received_);
  }
  received_from_.push_back(received_.size());
  // Any MPI type of the right size will do: the elements are only moved.
  const std::int64_t size = size_of(tensor.type);
  MPI_Datatype element = size == 8   ? MPI_DOUBLE
                         : size == 4 ? MPI_FLOAT
                         : size == 2 ? MPI_UINT16_T
                                     : MPI_UINT8_T;
  const auto memory = [&](const Message& m) {
    return m.in_place != nullptr ? m.in_place : buffer_->data() + m.offset;
  };
  for (const Message& m : incoming_)
    mpi_check(MPI_Recv_init(memory(m), narrow<int>(m.volume, kTooLarge), element, m.peer, tag,
                            group.handle(), receives_.add()));
  for (const Message& m : outgoing_)
    mpi_check(MPI_Send_init(memory(m), narrow<int>(m.volume, kTooLarge), element, m.peer, tag,
                            group.handle(), sends_.add()));
}

std::int64_t Exchange::buffer_bytes(const TransferPlan& plan, int part, Combine combine,
                                    const AnyConstView& tensor) {
  std::int64_t bytes = 0;
  for (const PartMessage& message : messages_of(plan)) {
    const bool arrives = message.dst == part;
    if (!arrives && message.src != part) continue;
    if ((arrives && combine == Combine::kAdd) || !fits_in_place(message, tensor))
      bytes += round_up(tensor.batch * message.volume() * size_of(tensor.type));
  }
  return bytes;
}

void Exchange::add_messages(const TransferPlan& plan, bool incoming, int part,
                            std::int64_t& offset) {
  for (PartMessage& message : messages_of(plan)) {
    if ((incoming ? message.dst : message.src) != part) continue;
    Message& added = (incoming ? incoming_ : outgoing_).emplace_back();
    added.peer = narrow<int>(incoming ? message.src : message.dst);
    added.volume = tensor_.batch * message.volume();
    if (fits_in_place(message, tensor_) && !(incoming && combine_ == Combine::kAdd))
      added.in_place = tensor_.begin_of(0, message.boxes.front());
    else
      added.offset = std::exchange(offset, offset + round_up(bytes(added)));
    added.boxes = std::move(message.boxes);
  }
}

template <class Byte>
void Exchange::add_boxes(const Message& message, std::vector<DenseBox<Byte>>& boxes) {
  std::byte* dense = buffer_->data() + message.offset;
  for (const Box& box : message.boxes) {
    boxes.push_back({box, dense});
    dense += size_of(tensor_.type) * tensor_.batch * box.volume();
  }
}

void Exchange::start() {
  if (empty()) return;
  const TraceScope scope(trace_.trace, trace_.pack, trace_.tensor);
  receives_.start_all();
  const std::int64_t begin_ns = timeline() != nullptr ? Trace::now_ns() : 0;
  pack(tensor_, packed_);
  for (Message& m : outgoing_) {
    counts_.sent_bytes += bytes(m);
    // SMPI charges only plain sends.
    if constexpr (simulation::kOn) simulation::message_end(bytes(m));
    m.posted_ns = begin_ns;
    record(TimelineEvent::Kind::kSend, m);
  }
  sends_.start_all();
  counts_.messages += static_cast<std::int64_t>(outgoing_.size());
  active_ = true;
}

bool Exchange::progress() {
  if (!active_) return true;
  if constexpr (simulation::kOn) return false;  // messages need no polls there
  const bool received = receives_.test_all();
  return sends_.test_all() && received;
}

void Exchange::finish() {
  if (!active_) return;
  TraceScope scope(trace_.trace, trace_.wait, trace_.tensor);
  for (std::size_t i = 0; i < incoming_.size();) {
    const std::size_t first = i;
    i = receive_arrived(i, scope);
    unpack(first, i);
    for (std::size_t m = first; m < i; ++m) record(TimelineEvent::Kind::kReceive, incoming_[m]);
  }
  sends_.wait_all();
  active_ = false;
}

// Waits for message `first`. Returns the end of the run of messages that have arrived by then, so
// that threads can share their boxes.
std::size_t Exchange::receive_arrived(std::size_t first, TraceScope& scope) {
  std::size_t i = first;
  do {
    Message& m = incoming_[i];
    if (timeline() != nullptr) m.posted_ns = Trace::now_ns();
    if (i == first) receives_.wait(i);
    if constexpr (simulation::kOn) simulation::message_end(bytes(m));
    if (timeline() != nullptr) m.arrived_ns = Trace::now_ns();
    counts_.received_bytes += bytes(m);
    scope.add_received(bytes(m));
    ++i;
  } while (i < incoming_.size() && receives_.test(i));
  return i;
}

void Exchange::unpack(std::size_t first, std::size_t end) {
  const TraceScope scope(trace_.trace, trace_.pack, trace_.tensor);
  const std::span boxes = std::span(received_).subspan(received_from_[first],
                                                       received_from_[end] - received_from_[first]);
  if (combine_ == Combine::kCopy)
    unpack_copy(boxes, tensor_);
  else
    unpack_add(boxes, tensor_);
}

// Records the packing of a message, or the wait for it and its unpacking.
void Exchange::record(TimelineEvent::Kind kind, const Message& message) {
  if (timeline() == nullptr) return;
  TimelineEvent event;
  event.kind = kind;
  event.peer = message.peer;
  event.tag = tag_;
  event.name = trace_.tensor;
  event.bytes = bytes(message);
  event.begin_ns = message.posted_ns;
  if (kind == TimelineEvent::Kind::kReceive) event.mark_ns = message.arrived_ns;
  event.end_ns = Trace::now_ns();
  timeline()->add(event);
}

}  // namespace halomesh
