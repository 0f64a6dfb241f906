// Samples that come piece by piece, and the parts of a group that keep blocks of them.
// Knows nothing of where samples come from or of when to stop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "partition/block_runs.hpp"
#include "partition/delivery.hpp"
#include "partition/window.hpp"
#include "runtime/mpi.hpp"
#include "runtime/piece_messages.hpp"
#include "runtime/stage_file.hpp"

namespace halomesh {

struct ScatterOptions {
  /// Of what is gathered for one write or message: stays in a core's cache from the one who packs
  /// it to the one who writes it.
  std::int64_t piece_bytes = 64 * 1024;
  /// Write to files of the same node where that can be; else send blocks to their parts.
  bool share_files = true;
};

/// Brings each part's block of each sample of a split into the part's file. Each part reads a
/// contiguous run of the samples, one a round:
///
///     part  rounds 0, 1, ...                 what a sample's bytes go through
///     0     slots 0, 1, 2 read by part 0     piece -> runs of each part's block -> file of the
///     part, 1     slots 3, 4    read by part 1     if it is on this node, or message -> file
///
/// Memory beyond that of the pieces that it is given: a piece for each part and a few more; with
/// deflate, a block for each part. Constructor and finish() are collective over the group.
class SampleScatter {
 public:
  /// `mine`: this part's file, with as many slots as the split has in this replica, or none where
  /// the part keeps nothing. It and `group` must outlive this object.
  SampleScatter(const Comm& group, const KeptSample& sample, std::int64_t slots, StageFile& mine,
                const ScatterOptions& options = {});

  /// The slots of the samples that this part reads.
  const Range& run() const { return runs_[static_cast<std::size_t>(group_.rank())]; }
  /// Takes the next bytes of the sample of `slot`, as a VoxelSink does, and what others send.
  void take(std::int64_t slot, std::int64_t offset, std::span<const std::byte> bytes);
  /// All bytes of the sample of `slot` have been taken.
  void end_sample(std::int64_t slot);
  /// Waits until this part has its blocks of the samples of the first `rounds` rounds, which the
  /// others must reach as well.
  void receive(std::int64_t rounds);
  /// When all rounds have been received: completes the index of this part's file.
  void finish();

 private:
  /// The way to one part's file.
  struct Lane {
    BlockRuns runs;
    bool wanted = false;                  // the part keeps something
    StageFile* file = nullptr;            // where it can be written from here
    std::optional<StageFile> neighbours;  // the file, if another's
    std::vector<std::byte> packed;        // for the next write
    std::size_t filled = 0;               // bytes for the next write or message
    std::optional<PieceMessages::Buffer> message;
  };
  /// What another part sends.
  struct Source {
    std::int64_t slot = 0, end = 0;  // slots that have not arrived wholly
    std::int64_t bytes = 0;          // of `slot` that have arrived
  };

  std::int64_t block_bytes(std::size_t part) const { return 2 * sample_.kept[part].volume(); }
  void open_lanes(StageFile& mine, bool share_files);
  void await_others();
  void put(std::size_t part, std::int64_t slot, std::span<const std::byte> bytes);
  void flush(std::size_t part, std::int64_t slot);
  void arrive(std::size_t part, std::span<const std::byte> bytes);

  const Comm& group_;
  const KeptSample& sample_;
  StageFile& mine_;
  std::int64_t piece_bytes_;
  std::vector<Range> runs_;      // slots, by the part that reads them
  std::vector<Lane> lanes_;      // by the part that keeps
  std::vector<Source> sources_;  // by the part that reads
  std::unique_ptr<PieceMessages> messages_;
};

}  // namespace halomesh
