// SPDX-License-Identifier: Apache-2.0
// Sums by messages between pairs of ranks: see point_sum.hpp.
#include "runtime/step/point_sum.hpp"

#include <algorithm>

#include "narrow.hpp"
#include "simulation.hpp"
#include "src/nn/add.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kMessageValues = PointSum::kMessageBytes / std::int64_t{sizeof(float)};

/// The pieces cut into messages: the first of each, then the second of each, ...
std::vector<SumPiece> messages_of(const std::vector<SumPiece>& pieces) {
  std::vector<SumPiece> messages;
  bool more = true;
  for (std::int64_t at = 0; more; at += kMessageValues) {
    more = false;
    for (const SumPiece& piece : pieces) {
      const std::int64_t lo = piece.lo + at, hi = std::min(lo + kMessageValues, piece.hi);
      if (lo < hi) messages.push_back({piece.rank, lo, hi});
      more = more || hi < piece.hi;
    }
  }
  return messages;
}

}  // namespace

PointSum::PointSum(const Comm& comm, int tag, const std::vector<SumRound>& rounds,
                   const std::function<int(int)>& rank_of, DataType payload)
    : comm_(comm.handle()), tag_(tag), payload_(payload) {
  std::int64_t slots = 0;
  for (const SumRound& round : rounds) {
    const std::size_t begin = messages_.size();
    append(round, rank_of);
    for (std::size_t i = begin; i < messages_.size(); ++i) {
      Message& message = messages_[i];
      end_ = std::max(
          {end_, message.send_at + message.send_count, message.receive_at + message.receive_count});
      const bool same = round.add && message.send_at == message.receive_at &&
                        message.send_count == message.receive_count;
      shares_sums_ = shares_sums_ || same;
      message.forgets = same && (message.from < comm.rank() || is_kept_elsewhere(message));
    }
    if (!round.add && !rounds_values()) continue;
    slots = std::max(slots, std::min(std::ssize(messages_) - narrow<std::int64_t>(begin),
                                     std::int64_t{kMessages}));
    for (std::size_t i = begin; i < messages_.size(); ++i)
      slot_values_ = std::max<std::int64_t>({slot_values_, messages_[i].receive_count,
                                             rounds_values() ? messages_[i].send_count : 0});
  }
  if (rounds_values())
    rounded_ = AlignedBuffer<Bfloat16>(2 * slots * slot_values_);
  else
    scratch_ = AlignedBuffer<float>(slots * slot_values_);
}

std::int64_t PointSum::buffer_bytes(const std::vector<SumRound>& rounds, DataType payload) {
  const bool rounds_values = payload == DataType::kBfloat16;
  std::int64_t slots = 0, values = 0;
  for (const SumRound& round : rounds) {
    if (!round.add && !rounds_values) continue;
    const std::vector<SumPiece> sends = messages_of(round.sends);
    const std::vector<SumPiece> receives = messages_of(round.receives);
    slots = std::max({slots, std::ssize(sends), std::ssize(receives)});
    for (const SumPiece& piece : receives) values = std::max(values, piece.hi - piece.lo);
    for (const SumPiece& piece : sends)
      if (rounds_values) values = std::max(values, piece.hi - piece.lo);
  }
  slots = std::min<std::int64_t>(slots, kMessages);
  return rounds_values ? 2 * slots * values * size_of(payload) : slots * values * size_of(payload);
}

// Two ranks that exchange the same values have the same sum afterwards.
bool PointSum::is_kept_elsewhere(const Message& message) const {
  return std::any_of(messages_.begin(), messages_.end(), [&](const Message& other) {
    return other.forgets && other.send_at < message.send_at + message.send_count &&
           message.send_at < other.send_at + other.send_count;
  });
}

void PointSum::append(const SumRound& round, const std::function<int(int)>& rank_of) {
  const std::vector<SumPiece> sends = messages_of(round.sends);
  const std::vector<SumPiece> receives = messages_of(round.receives);
  for (std::size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
    Message& message = messages_.emplace_back();
    if (i < sends.size()) {
      message.to = rank_of(sends[i].rank);
      message.send_at = sends[i].lo;
      message.send_count = narrow<int>(sends[i].hi - sends[i].lo);
    }
    if (i < receives.size()) {
      message.from = rank_of(receives[i].rank);
      message.receive_at = receives[i].lo;
      message.receive_count = narrow<int>(receives[i].hi - receives[i].lo);
    }
  }
  rounds_.push_back({messages_.size(), round.add});
}

bool PointSum::start(float* values, MPI_Request* requests, float* lost) {
  values_ = values;
  lost_ = lost;
  requests_ = requests;
  round_ = next_ = 0;
  return advance();
}

void PointSum::post(std::size_t slot, const Message& message) {
  MPI_Request* const requests = requests_ + 2 * slot;
  slots_[slot] = {next_, 0};
  const MPI_Datatype type = rounds_values() ? MPI_UINT16_T : MPI_FLOAT;
  if (message.receive_count > 0) {
    float* const whole = rounds_[round_].add ? scratch_of(slot) : values_ + message.receive_at;
    void* const to = rounds_values() ? static_cast<void*>(rounded_of(slot, false)) : whole;
    mpi_check(MPI_Irecv(to, message.receive_count, type, message.from, tag_, comm_, requests));
    ++slots_[slot].missing;
  }
  if (message.send_count > 0) {
    const void* from = values_ + message.send_at;
    if (rounds_values()) {
      from = rounded_of(slot, true);
      round_values(values_ + message.send_at, lost_ + message.send_at, rounded_of(slot, true),
                   message.send_count);
    }
    mpi_check(MPI_Isend(from, message.send_count, type, message.to, tag_, comm_, requests + 1));
    ++slots_[slot].missing;
  }
  ++active_;
}

// A slot is free when both its messages are complete. If a round adds to the values that it sends,
// it must not do so before the send is complete.
bool PointSum::completed(int request) {
  const auto index = static_cast<std::size_t>(request / 2);
  Slot& slot = slots_[index];
  const Message& message = messages_[slot.message];
  if constexpr (simulation::kOn)
    if (request % 2 == 0)
      simulation::message_end(message.receive_count * static_cast<std::int64_t>(size_of(payload_)));
  if (--slot.missing > 0) return false;
  float* const values = values_ + message.receive_at;
  if (rounds_[round_].add && rounds_values())
    add_values(values, rounded_of(index, false), message.receive_count);
  else if (rounds_[round_].add && message.receive_count > 0)
    add_values(values, scratch_of(index), message.receive_count);
  else if (rounds_values())
    widen_values(values, rounded_of(index, false), message.receive_count);
  if (rounds_values() && message.forgets)
    round_values(values, nullptr, nullptr, message.receive_count);
  --active_;
  return advance();
}

bool PointSum::advance() {
  for (; round_ < rounds_.size(); ++round_) {
    for (std::size_t slot = 0; slot < kMessages && next_ < rounds_[round_].end; ++slot)
      if (slots_[slot].missing == 0) {
        post(slot, messages_[next_]);
        ++next_;
      }
    if (active_ > 0) return false;
  }
  // These values were not rounded yet: other sums were rounded when they were sent.
  if (rounds_values() && shares_sums_) round_values(values_, lost_, nullptr, end_);
  return true;
}

}  // namespace halomesh
