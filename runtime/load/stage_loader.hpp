// SPDX-License-Identifier: Apache-2.0
// Batches from the data that the ranks have staged: during the previous step, blocks are sent from
// the ranks that keep them to those that use them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "partition/samples/redistribution.hpp"
#include "runtime/load/loader.hpp"
#include "runtime/load/slab_ring.hpp"
#include "runtime/mpi/box_type.hpp"
#include "runtime/mpi/in_flight.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/posix/background_task.hpp"
#include "runtime/stage/block_codec.hpp"
#include "runtime/stage/stager.hpp"

namespace halomesh {

/// Every rank knows the whole schedule, so that sends and receives match without negotiation. A
/// sample's owner does not change; a replica that uses another's sample receives its blocks. For
/// each step:
///
///   begin()    main thread: posts receives and, unless the stage is compressed, sends
///   gather()   own thread: verifies (and inflates) what is sent, copies or transforms local data
///   advance()  main thread: lets messages make progress
///   place()    own thread: transforms what has arrived, while the rest is in flight
///
/// Memory: the batch in use and the batch being prepared, no third block. Messages go straight from
/// the stage into the batch. A block that is to be transformed or converted to fp32 is sent in
/// tiles (see tiles.hpp), each into the memory of its image, and transformed there with one tile of
/// scratch memory. A compressed block is inflated and sent slab by slab, with two slabs in memory.
class StageLoader final : public Loader {
 public:
  /// Collective over mesh.world(), as is the destructor unless an exception unwinds. `sample`: what
  /// each part keeps and needs. The mesh must outlive this object.
  StageLoader(const ProcessMesh& mesh, StagedSample sample, StagedSplit split,
              const BatchSpec& spec);
  ~StageLoader() override;

  void append(const BatchSchedule& schedule) override;
  const Batch& next() override;
  void progress() override;

  /// Bytes received from other ranks since construction.
  std::int64_t received_bytes() const { return received_bytes_; }

 private:
  /// What this part receives and sends of a sample under one symmetry.
  struct SendRecvList {
    std::vector<Transfer> incoming, outgoing;
  };
  /// Boxes are of the sample; `place` is a place in the batch of the receiver.
  struct Piece {
    std::int64_t place = 0;
    Box box;
    Symmetry symmetry;
  };
  struct Send {
    std::int64_t place = 0;
    Box box;
    Symmetry symmetry;
    int rank = 0;  // that it goes to
  };
  /// A kept block that this step uses: entries first .. last of to_send_ and of local_.
  struct BlockUse {
    std::int64_t slot = 0;
    std::size_t send = 0, send_end = 0, local = 0, local_end = 0;
  };
  struct Buffer {
    Tensor data, targets;
    std::vector<std::int64_t> samples;
    Batch batch;
  };
  enum class Phase { kIdle, kMaking, kReady };

  const SendRecvList& list_of(const Symmetry& symmetry);
  void begin();
  void take(const SampleUse& use, std::int64_t place, Buffer& buffer);
  void receive(const Transfer& transfer, int from, const Piece& whole);
  void give(const SampleUse& use, std::int64_t place, std::int64_t replica);
  void send(const BlockUse& use, TensorView<const std::int16_t> slab, Requests& requests);
  void send_filled();
  void gather();
  void inflate(std::size_t use);
  void place();
  void advance(bool wait);
  void finish();

  bool compressed() const { return split_->file.codec() != StageCodec::kNone; }
  bool tiled(const Symmetry& symmetry) const {
    return !symmetry.is_identity() || spec_.type != DataType::kInt16;
  }
  template <class Visit>
  void for_each_message(const Box& box, const Symmetry& symmetry, Visit visit) const;
  const std::vector<Box>& own_slabs() const {
    return slabs_[static_cast<std::size_t>(mesh_.part())];
  }
  AnyView block_at(std::int64_t place) const;
  const Box& box() const { return sample_.blocks[static_cast<std::size_t>(mesh_.part())]; }

  const ProcessMesh& mesh_;
  Comm comm_;
  StagedSample sample_;
  InFlight<StagedSplit> split_;
  BatchSpec spec_;
  std::array<std::optional<SendRecvList>, 72> lists_;  // by the number of a symmetry; see list_of()

  std::deque<BatchSchedule> schedules_;
  std::int64_t step_ = 0;   // of the first schedule: the next one to begin
  std::int64_t begun_ = 0;  // steps; buffer (begun_ - 1) % 2 is being prepared
  InFlight<std::array<Buffer, 2>> buffers_;
  Phase phase_ = Phase::kIdle;
  std::vector<Piece> local_;
  std::vector<Send> to_send_;
  std::vector<BlockUse> uses_;
  std::vector<Piece> arrivals_;         // in the order of receives_
  std::vector<int> arrived_, placing_;  // of arrivals_: not yet placed, and being placed
  AlignedBuffer<std::int16_t> tile_;
  std::vector<std::vector<Box>> slabs_;  // of each part's kept block
  BlockCodec codec_;
  InFlight<SlabRing> ring_;
  std::int64_t received_bytes_ = 0;
  BoxTypes sent_types_, received_types_;
  // After the buffers: they wait before those go.
  Requests receives_, sends_;
  std::array<Requests, SlabRing::kSlabs> slab_sends_;
  std::array<bool, SlabRing::kSlabs> sending_{};
  BackgroundTask task_;  // last: it uses all of the above
};

}  // namespace halomesh
