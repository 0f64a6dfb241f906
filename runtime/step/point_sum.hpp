// SPDX-License-Identifier: Apache-2.0
// The sum of a buffer over some ranks by messages between pairs of them, advanced by polls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "partition/cost/sum_schedule.hpp"
#include "runtime/mpi/mpi.hpp"
#include "src/nn/data_type.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Plays one rank's rounds of a sum_schedule() with plain non-blocking messages, no collective and
/// no memory allocated after construction. A round is cut into messages of up to kMessageBytes, of
/// which kMessages each way are in flight: what has arrived is added, from memory that is still in
/// a cache, while more arrives. The same values give the same bits in every run, as the order of
/// additions is that of the schedule.
///
/// With DataType::kBfloat16 messages hold values rounded to bf16, half the bytes: a rank adds in
/// fp32 what it receives, and rounds a value where it stands before it leaves, so that all ranks
/// end with the same bits, which bf16 can hold. What each rounding takes away is added to `lost` of
/// one rank, that of the lowest number where several hold the same partial sum and round alike: the
/// sum and what all ranks have lost are together the exact sum, up to rounding in fp32. Added to
/// the next values it is not lost: the error feedback of F. Seide et al., "1-bit stochastic
/// gradient descent" (Interspeech 2014), which keeps the errors of gradients and of their sums,
/// each where it occurs; S. P. Karimireddy et al. (ICML 2019, arXiv 1901.09847) show why it
/// converges like plain SGD.
///
/// Any number of sums may be in flight on one communicator if those of the same two ranks have
/// different tags; nothing else may use these tags.
class PointSum {
 public:
  static constexpr int kMessages = 4;
  static constexpr int kRequests = 2 * kMessages;
  static constexpr std::int64_t kMessageBytes = 1 << 19;

  /// `rank_of` gives the rank in `comm` of each rank of `rounds`; `comm` must outlive this object,
  /// which must be InFlight. Local.
  PointSum(const Comm& comm, int tag, const std::vector<SumRound>& rounds,
           const std::function<int(int)>& rank_of, DataType payload = DataType::kFloat32);

  /// Bytes that a sum with these rounds keeps for messages.
  static std::int64_t buffer_bytes(const std::vector<SumRound>& rounds,
                                   DataType payload = DataType::kFloat32);

  /// Starts the sum of `values`, in place. `requests` are kRequests null requests of the caller,
  /// who reports each that completes. Both stay where they are until the sum is complete, as does
  /// `lost`, as many floats as values, which a payload of kBfloat16 needs. True when it is: there
  /// is nothing to wait for.
  bool start(float* values, MPI_Request* requests, float* lost = nullptr);
  /// The request of this index has completed: adds what came and sends what is next. True when the
  /// sum is complete.
  bool completed(int request);

 private:
  struct Message {  // one each way; a count of 0 is none
    int to = 0, from = 0;
    int send_count = 0, receive_count = 0;
    std::int64_t send_at = 0, receive_at = 0;
    bool forgets =
        false;  // a rank of a lower number has the same sum and keeps what rounding takes
  };
  struct Round {
    std::size_t end = 0;  // of its messages
    bool add = false;
  };
  void append(const SumRound& round, const std::function<int(int)>& rank_of);
  void post(std::size_t slot, const Message& message);
  bool advance();
  bool rounds_values() const { return payload_ == DataType::kBfloat16; }
  bool is_kept_elsewhere(const Message& message) const;
  float* scratch_of(std::size_t slot) {
    return scratch_.data() + static_cast<std::int64_t>(slot) * slot_values_;
  }
  Bfloat16* rounded_of(std::size_t slot, bool sent) {
    const auto index = static_cast<std::int64_t>(2 * slot) + (sent ? 1 : 0);
    return rounded_.data() + index * slot_values_;
  }

  MPI_Comm comm_;
  int tag_;
  std::vector<Message> messages_;
  std::vector<Round> rounds_;
  std::int64_t slot_values_ = 0;
  DataType payload_;
  bool shares_sums_ = false;         // in some round, two ranks make the same sums
  std::int64_t end_ = 0;             // of the values that this rank sends or receives
  AlignedBuffer<float> scratch_;     // what arrives to be added
  AlignedBuffer<Bfloat16> rounded_;  // what arrives and what leaves, with that payload

  float *values_ = nullptr, *lost_ = nullptr;
  MPI_Request* requests_ = nullptr;
  std::size_t round_ = 0, next_ = 0;  // next message to post
  struct Slot {
    std::size_t message = 0;
    int missing = 0;  // requests
  };
  Slot slots_[kMessages];
  int active_ = 0;  // slots
};

}  // namespace halomesh
