// SPDX-License-Identifier: Apache-2.0
// Distributes samples, read piece by piece, to the parts of a group that keep blocks of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "partition/box_runs.hpp"
#include "partition/samples/staged_samples.hpp"
#include "partition/window.hpp"
#include "runtime/mpi/mpi.hpp"
#include "runtime/mpi/piece_messages.hpp"
#include "runtime/stage/node_files.hpp"
#include "runtime/stage/stage_file.hpp"

namespace halomesh {

/// The size of one write or message: small enough to stay in a core's cache from packing to
/// writing.
constexpr std::int64_t kScatterPieceBytes = 64 * 1024;

/// Brings each part's block of each sample of a split into the part's file. Each part reads a
/// contiguous run of the samples, one per round:
///
///     part  rounds 0, 1, ...
///     0     slots 0, 1, 2
///     1     slots 3, 4
///
/// The bytes of a sample go from the piece read to runs of each part's block: on the same node to a
/// file, which the part adopts at the end; otherwise in a message to the part, which writes them to
/// its file.
///
/// Memory beyond the pieces passed in: a piece for each part and a few more; with deflate, a block
/// for each part. Constructor and finish() are collective over the group.
class SampleScatter {
 public:
  /// `samples` describes the slots. `mine` is this part's file, with all slots, of the type of the
  /// samples' values; it and `group` must outlive this object. `files` come from
  /// exchange_node_files(); where a file is missing, blocks are sent as messages.
  SampleScatter(const Comm& group, StagedSamples samples, StageFile& mine, NodeFiles files,
                std::int64_t piece_bytes = kScatterPieceBytes);

  /// The slots of the samples that this part reads.
  const Range& run() const { return runs_[static_cast<std::size_t>(group_.rank())]; }
  /// Takes the next bytes of the sample of `slot`, as a VoxelSink does, and receives messages of
  /// other parts.
  void take(std::int64_t slot, std::int64_t offset, std::span<const std::byte> bytes);
  /// Marks the end of the sample of `slot`.
  void end_sample(std::int64_t slot);
  /// Waits until this part has its blocks of the samples of the first `rounds` rounds; all other
  /// parts must call it as well.
  void receive(std::int64_t rounds);
  /// Gives each part of this node the files written for it. Call it after all rounds have been
  /// received.
  void finish();

 private:
  /// The path to one part.
  struct Lane {
    BoxRuns runs;                       // the runs of the sample being read
    bool wanted = false;                // the part keeps a piece of a sample that this part reads
    bool own = false;                   // the part is this one
    std::optional<StageFile> outgoing;  // by round, for another part; empty: messages are sent
    std::vector<std::byte> packed;      // bytes for the next write
    std::size_t filled = 0;             // bytes for the next write or message
    std::optional<PieceMessages::Buffer> message;

    bool writes() const { return own || outgoing; }
  };
  /// The blocks that another part sends.
  struct Source {
    std::int64_t slot = 0, end = 0;  // slots that have not arrived completely
    std::int64_t bytes = 0;          // bytes of `slot` that have arrived
  };

  std::int64_t values_of(std::int64_t slot, std::int64_t part) const {
    return samples_.block(slot, part).volume();
  }
  /// Bytes of this part's block.
  std::int64_t block_bytes(std::int64_t slot) const {
    return size_of(mine_.type()) * values_of(slot, group_.rank());
  }
  void skip_empty(Source& source) const;
  void begin_sample(std::int64_t slot);
  void open_lanes();
  void await_others();
  void write(Lane& lane, std::int64_t slot, std::span<const std::byte> bytes);
  /// True if a run is large enough for a write of its own.
  bool is_long(std::span<const std::byte> run) const {
    return run.size() >= static_cast<std::size_t>(piece_bytes_) / 4;
  }
  bool pack(Lane& lane, std::span<const std::byte> run) const;
  void put(std::size_t part, std::int64_t slot, std::span<const std::byte> bytes);
  void flush(std::size_t part, std::int64_t slot);
  void arrive(std::size_t part, std::span<const std::byte> bytes);

  const Comm& group_;
  StagedSamples samples_;
  StageFile& mine_;
  NodeFiles files_;
  std::int64_t piece_bytes_;
  std::vector<Range> runs_;      // slots, by the part that reads them
  std::int64_t begun_ = -1;      // the slot of the sample being read
  std::vector<Lane> lanes_;      // by the part that keeps
  std::vector<Source> sources_;  // by the part that reads
  std::unique_ptr<PieceMessages> messages_;
};

}  // namespace halomesh
