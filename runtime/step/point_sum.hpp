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
/// no allocation after construction. A round is cut into messages of up to kMessageBytes, of which
/// kMessages each way are in flight: one is added, while still in a cache, as the next ones arrive.
/// Equal values give equal bits in every run, because the schedule fixes the order of additions.
///
/// With DataType::kBfloat16, messages have values rounded to bf16, half the bytes. A rank adds
/// received values in fp32, and rounds a value in place before sending it, so that all ranks end
/// with equal bits, which bf16 can represent. The loss of each rounding is added to `lost` of one
/// rank; if several have the same partial sum and round it alike, to that of the lowest. The sum
/// and the losses of all ranks together are the exact sum, up to rounding in fp32, so adding the
/// losses to the next values makes up for them. This is the error feedback of F. Seide et al.,
/// "1-bit stochastic gradient descent" (Interspeech 2014), kept for gradients and for their sums
/// where each error occurs; S. P. Karimireddy et al. (ICML 2019, arXiv 1901.09847) show why it
/// converges like plain SGD.
///
/// Any number of sums may be in flight on one communicator if those of the same two ranks have
/// different tags; nothing else may use these tags.
class PointSum {
 public:
  static constexpr int kMessages = 4;
  static constexpr int kRequests = 2 * kMessages;
  static constexpr std::int64_t kMessageBytes = 1 << 19;

  /// `rank_of` maps the ranks of `rounds` to ranks of `comm`, which must outlive this object. This
  /// object must be InFlight. Local.
  PointSum(const Comm& comm, int tag, const std::vector<SumRound>& rounds,
           const std::function<int(int)>& rank_of, DataType payload = DataType::kFloat32);

  /// Bytes of the message buffers of a sum with these rounds.
  static std::int64_t buffer_bytes(const std::vector<SumRound>& rounds,
                                   DataType payload = DataType::kFloat32);

  /// Starts the sum of `values`, in place. `requests` are kRequests null requests of the caller,
  /// who reports each one that completes. Both must stay in place until the sum is complete, as
  /// must `lost`, which kBfloat16 needs and which has as many floats as `values`. Returns true if
  /// the sum is complete already.
  bool start(float* values, MPI_Request* requests, float* lost = nullptr);
  /// Handles the completion of the request of this index: adds the received values and sends the
  /// next message. Returns true when the sum is complete.
  bool completed(int request);

 private:
  struct Message {  // one each way; count 0: no message
    int to = 0, from = 0;
    int send_count = 0, receive_count = 0;
    std::int64_t send_at = 0, receive_at = 0;
    bool forgets = false;  // a lower rank has the same sum and keeps its rounding losses
  };
  struct Round {
    std::size_t end = 0;  // the end of its messages
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
  bool shares_sums_ = false;         // in some round, two ranks make equal sums
  std::int64_t end_ = 0;             // the end of the values that this rank sends or receives
  AlignedBuffer<float> scratch_;     // received values that are to be added
  AlignedBuffer<Bfloat16> rounded_;  // received and sent values with payload kBfloat16

  float *values_ = nullptr, *lost_ = nullptr;
  MPI_Request* requests_ = nullptr;
  std::size_t round_ = 0, next_ = 0;  // the next message to post
  struct Slot {
    std::size_t message = 0;
    int missing = 0;  // requests still in flight
  };
  Slot slots_[kMessages];
  int active_ = 0;  // slots in use
};

}  // namespace halomesh
