// SPDX-License-Identifier: Apache-2.0
// Brings one tensor of a step's samples from the ranks that keep its blocks to those that use them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "partition/samples/sample_order.hpp"
#include "partition/samples/sample_owners.hpp"
#include "partition/samples/staged_samples.hpp"
#include "partition/samples/tiles.hpp"
#include "runtime/load/slab_ring.hpp"
#include "runtime/mpi/box_type.hpp"
#include "runtime/mpi/in_flight.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/stage/block_codec.hpp"
#include "runtime/stage/stage_file.hpp"

namespace halomesh {

/// The part of a StageLoader that moves one tensor: the samples or their labels. For each step:
///
///   begin()           main thread: posts receives and, unless the stage is compressed, sends
///   gather()          loader's thread: verifies (and inflates) blocks to send, and copies or
///                     transforms local data
///   progress()        main thread: lets messages make progress
///   choose_arrived()  main thread, while the loader's is idle: selects data for place()
///   place()           loader's thread: transforms arrived data, while the rest is in flight
///   finish_sends()    main thread: waits for all messages of this rank
///
/// Messages go straight from the stage into the batch. A block that is to be transformed or
/// converted to fp32 is sent in tiles (see tiles.hpp), each into the memory of its image, and
/// transformed there with one tile of scratch memory. A compressed block is inflated and sent slab
/// by slab, with two slabs in memory.
class StagedBlocks {
 public:
  /// How blocks arrive in a batch.
  struct Delivery {
    DataType type;  ///< the file's or, for int16 counts, fp32
    /// Messages have the tags first_tag + tag_step * place, with the place in the batch.
    std::int64_t first_tag, tag_step;
    /// With crops, parts need blocks of these (see SampleUse::origin), in which values outside the
    /// sample are `padding` for fp32 and kOutsideLabel for labels; without, samples have equal
    /// extents.
    std::optional<CropBlocks> crops{};
    float padding = 0;
  };

  /// `samples` are the blocks that each part keeps and needs; `file` keeps this part's blocks.
  /// Mesh, communicator (of the mesh's world) and owners must outlive this object. Local.
  StagedBlocks(const ProcessMesh& mesh, const Comm& comm, const SampleOwners& owners,
               StagedSamples samples, StageFile file, Delivery delivery);
  StagedBlocks(const StagedBlocks&) = delete;
  StagedBlocks& operator=(const StagedBlocks&) = delete;
  ~StagedBlocks() = default;

  /// The block that this part needs.
  const Box& box() const {
    const std::vector<Box>& needed =
        delivery_.crops ? delivery_.crops->needed : samples_.each()->blocks;
    return needed[static_cast<std::size_t>(mesh_.part())];
  }
  bool compressed() const { return file_->codec() != StageCodec::kNone; }
  std::int64_t received_bytes() const { return received_bytes_; }

  /// Starts step `step` of a schedule into `batch`, the blocks box() of all local samples. Its
  /// memory must stay until finish_sends() or, while an exception unwinds, until the process ends.
  void begin(const BatchSchedule& schedule, std::int64_t step, AnyView batch);
  void gather();
  void progress();
  bool choose_arrived();
  void place();
  /// Calls on_arrival() whenever messages have arrived, until all have; blocks.
  void await_receives(const std::function<void()>& on_arrival);
  /// Sends inflated slabs, and frees slabs that have been sent.
  void send_filled();
  void finish_sends();
  /// Ends a gather() that waits for free slabs.
  void close() { ring_->close(); }

 private:
  /// The boxes of a sample that this part receives and sends under one symmetry.
  struct SendRecvList {
    std::vector<Transfer> incoming, outgoing;
  };
  /// Boxes are in coordinates of the sample; `place` is a place in the receiver's batch.
  struct Piece {
    std::int64_t place = 0;
    Box box;
    Symmetry symmetry;
  };
  struct Send {
    std::int64_t place = 0;
    Box box;
    Symmetry symmetry;
    int rank = 0;  // the destination
  };
  /// A kept block that this step uses: a range of entries of to_send_ and of local_.
  struct BlockUse {
    std::int64_t slot = 0;
    Box kept;
    std::size_t send = 0, send_end = 0, local = 0, local_end = 0;
  };

  /// The geometry of the sample in use; valid until the next call where samples differ.
  const StagedSample& sample_of(const SampleUse& use);
  const SendRecvList& list_of(const SampleUse& use, const StagedSample& sample);
  Spatial origin_of(const SampleUse& use) const;
  const Spatial& origin_at(std::int64_t place) const {
    return origins_[static_cast<std::size_t>(place)];
  }
  void pad(const SampleUse& use, std::int64_t place) const;
  void copy(AnyConstView slab, const Piece& piece) const;
  const Shape& used_shape() const {
    return delivery_.crops ? delivery_.crops->shape : samples_.each()->shape;
  }
  void take(const SampleUse& use, const StagedSample& sample, std::int64_t place);
  void receive(const Box& kept, int from, const Piece& whole);
  void give(const SampleUse& use, const StagedSample& sample, std::int64_t place,
            std::int64_t replica);
  MPI_Datatype sent_type(const Box& kept, const Box& piece);
  void send(const BlockUse& use, AnyConstView slab, Requests& requests);
  void inflate(std::size_t use);

  bool tiled(const Symmetry& symmetry) const {
    return !symmetry.is_identity() || delivery_.type != file_->type();
  }
  template <class Visit>
  void for_each_message(const Box& box, const Symmetry& symmetry, Visit visit) const;
  /// Calls visit(box) for the slabs of a kept block that are sent at a time.
  template <class Visit>
  void for_each_sent_slab(const Box& kept, Visit visit) const;
  std::int64_t values_of_slab(const Box& kept) const;
  AnyConstView stored_block(const BlockUse& use) const {
    return {file_->stored(use.slot).data(), file_->type(), use.kept, 1};
  }
  AnyView block_at(std::int64_t place) const {
    return {batch_.data + place * batch_.sample_bytes(), batch_.type, batch_.span, 1};
  }
  int tag_of(std::int64_t place) const;

  const ProcessMesh& mesh_;
  const Comm& comm_;
  const SampleOwners& owners_;
  StagedSamples samples_;
  StagedSample sample_;  // the result of sample_of()
  InFlight<StageFile> file_;
  Delivery delivery_;
  std::array<std::optional<SendRecvList>, 72> lists_;  // by the number of a symmetry; see list_of()
  SendRecvList crop_list_;                             // for one use

  AnyView batch_;
  std::vector<Spatial> origins_;  // origins of crops, by place in the batch
  std::vector<Piece> local_;
  std::vector<Send> to_send_;
  std::vector<BlockUse> uses_;
  std::vector<Piece> arrivals_;         // in the order of receives_
  std::vector<int> arrived_, placing_;  // indices of arrivals_: not yet placed, and being placed
  AlignedBuffer<std::byte> tile_;
  BlockCodec codec_;
  InFlight<SlabRing> ring_;
  std::int64_t received_bytes_ = 0;
  Box sent_span_;  // the box of sent_types_
  BoxTypes sent_types_, received_types_;
  // These follow the slabs, so that they complete before the slabs are freed.
  Requests receives_, sends_;
  std::array<Requests, SlabRing::kSlabs> slab_sends_;
  std::array<bool, SlabRing::kSlabs> sending_{};
};

}  // namespace halomesh
