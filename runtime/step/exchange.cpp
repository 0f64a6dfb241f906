// SPDX-License-Identifier: Apache-2.0
// Executes a TransferPlan between ranks: see exchange.hpp.
#include "runtime/step/exchange.hpp"

#include "narrow.hpp"
#include "simulation.hpp"
#include "src/nn/pack.hpp"

namespace halomesh {
namespace {

constexpr const char* kTooLarge = "cut the sample into more parts or use a smaller batch";

// Each message starts on a cache line of its own.
std::int64_t round_up(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

/// Records the packing of a message, or the wait for it and its unpacking.
class Exchange::MessageScope {
 public:
  MessageScope(Timeline* timeline, TimelineEvent::Kind kind, const Exchange& exchange,
               const Message& message)
      : timeline_(timeline) {
    if (timeline == nullptr) return;
    event_.kind = kind;
    event_.peer = message.peer;
    event_.tag = exchange.tag_;
    event_.name = exchange.trace_.tensor;
    event_.bytes = exchange.bytes(message);
    event_.begin_ns = Trace::now_ns();
  }
  MessageScope(const MessageScope&) = delete;
  MessageScope& operator=(const MessageScope&) = delete;
  ~MessageScope() {
    if (timeline_ == nullptr) return;
    event_.end_ns = Trace::now_ns();
    timeline_->add(event_);
  }
  void arrived() {
    if (timeline_ != nullptr) event_.mark_ns = Trace::now_ns();
  }

 private:
  Timeline* timeline_;
  TimelineEvent event_;
};

Exchange::Exchange(const Comm& group, int tag, const TransferPlan& plan, Combine combine,
                   AnyView tensor, const ExchangeTrace& trace)
    : tag_(tag), combine_(combine), tensor_(tensor), trace_(trace) {
  incoming_ = collect(plan, true, group.rank());
  outgoing_ = collect(plan, false, group.rank());
  std::int64_t offset = 0;
  assign_memory(incoming_, combine == Combine::kCopy, offset);
  assign_memory(outgoing_, true, offset);
  *buffer_ = AlignedBuffer<std::byte>(offset);
  // Of each size any type: the elements are only moved.
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

std::vector<Exchange::Message> Exchange::collect(const TransferPlan& plan, bool incoming,
                                                 int part) const {
  std::vector<Message> messages;
  for (const Transfer& t : plan.transfers()) {
    if ((incoming ? t.dst : t.src) != part) continue;
    const int peer = narrow<int>(incoming ? t.src : t.dst);
    // The plan is sorted by (src, dst): the boxes of one peer follow each other.
    if (messages.empty() || messages.back().peer != peer)
      messages.push_back({peer, {}, 0, 0, nullptr});
    messages.back().boxes.push_back(t.box);
    messages.back().volume += tensor_.batch * t.box.volume();
  }
  return messages;
}

void Exchange::assign_memory(std::vector<Message>& messages, bool may_be_in_place,
                             std::int64_t& offset) {
  for (Message& m : messages) {
    if (may_be_in_place && m.boxes.size() == 1 && tensor_.batch == 1 &&
        tensor_.is_dense(m.boxes.front())) {
      m.in_place = tensor_.begin_of(0, m.boxes.front());
    } else {
      m.offset = offset;
      offset += round_up(bytes(m));
    }
  }
}

void Exchange::start() {
  if (empty()) return;
  const TraceScope scope(trace_.trace, trace_.pack, trace_.tensor);
  receives_.start_all();
  for (const Message& m : outgoing_) {
    counts_.sent_bytes += bytes(m);
    const MessageScope sending(timeline(), TimelineEvent::Kind::kSend, *this, m);
    if constexpr (simulation::kOn) simulation::message_end(bytes(m));  // SMPI: only of plain sends
    if (m.in_place != nullptr) continue;
    std::byte* to = buffer_->data() + m.offset;
    for (const Box& box : m.boxes) to += size_of(tensor_.type) * pack(tensor_, box, to);
  }
  sends_.start_all();
  counts_.messages += static_cast<std::int64_t>(outgoing_.size());
  active_ = true;
}

bool Exchange::progress() {
  if (!active_) return true;
  const bool received = receives_.test_all();
  return sends_.test_all() && received;
}

void Exchange::finish() {
  if (!active_) return;
  TraceScope scope(trace_.trace, trace_.wait, trace_.tensor);
  for (std::size_t i = 0; i < incoming_.size(); ++i) {
    const Message& m = incoming_[i];
    MessageScope receiving(timeline(), TimelineEvent::Kind::kReceive, *this, m);
    receives_.wait(i);
    if constexpr (simulation::kOn) simulation::message_end(bytes(m));
    receiving.arrived();
    counts_.received_bytes += bytes(m);
    scope.add_received(bytes(m));
    if (m.in_place == nullptr) unpack(m);
  }
  sends_.wait_all();
  active_ = false;
}

void Exchange::unpack(const Message& message) {
  const TraceScope scope(trace_.trace, trace_.pack, trace_.tensor);
  const std::byte* from = buffer_->data() + message.offset;
  for (const Box& box : message.boxes)
    from += size_of(tensor_.type) * (combine_ == Combine::kCopy ? unpack_copy(from, box, tensor_)
                                                                : unpack_add(from, box, tensor_));
}

}  // namespace halomesh
