// SPDX-License-Identifier: Apache-2.0
// Sums by messages between pairs of ranks: see point_sum.hpp.
#include "runtime/step/point_sum.hpp"

#include <algorithm>

#include "narrow.hpp"
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
                   const std::function<int(int)>& rank_of)
    : comm_(comm.handle()), tag_(tag) {
  std::int64_t slots = 0;
  for (const SumRound& round : rounds) {
    const std::size_t begin = messages_.size();
    append(round, rank_of);
    if (!round.add) continue;
    slots = std::max(slots, std::min(std::ssize(messages_) - narrow<std::int64_t>(begin),
                                     std::int64_t{kMessages}));
    for (std::size_t i = begin; i < messages_.size(); ++i)
      slot_values_ = std::max<std::int64_t>(slot_values_, messages_[i].receive_count);
  }
  scratch_ = AlignedBuffer<float>(slots * slot_values_);
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

bool PointSum::start(float* values, MPI_Request* requests) {
  values_ = values;
  requests_ = requests;
  round_ = next_ = 0;
  return advance();
}

void PointSum::post(std::size_t slot, const Message& message) {
  MPI_Request* const requests = requests_ + 2 * slot;
  slots_[slot] = {next_, 0};
  if (message.receive_count > 0) {
    float* const to = rounds_[round_].add ? scratch_of(slot) : values_ + message.receive_at;
    mpi_check(MPI_Irecv(to, message.receive_count, MPI_FLOAT, message.from, tag_, comm_, requests));
    ++slots_[slot].missing;
  }
  if (message.send_count > 0) {
    mpi_check(MPI_Isend(values_ + message.send_at, message.send_count, MPI_FLOAT, message.to, tag_,
                        comm_, requests + 1));
    ++slots_[slot].missing;
  }
  ++active_;
}

// A slot is free again when both its messages are complete: where a round adds to what it sends,
// nothing is added before it has left.
bool PointSum::completed(int request) {
  const auto index = static_cast<std::size_t>(request / 2);
  Slot& slot = slots_[index];
  if (--slot.missing > 0) return false;
  const Message& message = messages_[slot.message];
  if (rounds_[round_].add && message.receive_count > 0)
    add_values(values_ + message.receive_at, scratch_of(index), message.receive_count);
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
  return true;
}

}  // namespace halomesh
