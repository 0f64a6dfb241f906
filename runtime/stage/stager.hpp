// SPDX-License-Identifier: Apache-2.0
// Staging: one rank of the replica that keeps a sample reads it once and sends each part its block.
// Must not depend on file formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "partition/samples/crops.hpp"
#include "partition/samples/sample_owners.hpp"
#include "partition/samples/staged_samples.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/log/metrics.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/posix/read_counts.hpp"
#include "runtime/stage/kept_stage.hpp"
#include "runtime/stage/node_files.hpp"
#include "runtime/stage/stage_directory.hpp"
#include "runtime/stage/stage_file.hpp"

namespace halomesh {

struct StageOptions {
  std::filesystem::path directory;  ///< node-local
  StageCodec codec = StageCodec::kNone;
  bool keep = false;  ///< keep the stage for the next run
};

/// A split to be staged; the data set must outlive the Stager.
struct SplitSource {
  std::string name;
  const Dataset* data = nullptr;
  SampleOwners owners;
  StagedSamples samples;                ///< the samples, and the blocks that each part keeps
  std::optional<StagedSamples> labels;  ///< blocks of their labels, if the data set has them
  bool find_foreground = false;         ///< in the labels, whose blocks are a partition
};

/// This rank's blocks of a split, and the scalar targets of the whole split.
struct StagedSplit {
  SampleOwners owners;
  StageFile file;                      ///< this part's blocks of its replica's samples, by slot
  std::vector<float> targets;          ///< targets of all samples, in their order; empty if they
                                       ///< are labels
  std::optional<StageFile> labels;     ///< its blocks of the labels, where these are the targets
  std::vector<Foreground> foreground;  ///< the foreground of all samples, if SplitSource asks for
                                       ///< it

  std::span<const float> targets_of(std::int64_t sample) const {
    const std::size_t count = targets.size() / static_cast<std::size_t>(owners.samples());
    return std::span(targets).subspan(static_cast<std::size_t>(sample) * count, count);
  }
};
using StagedSplits = std::vector<StagedSplit>;

/// Stages the splits of one run. Constructor and run() are collective over mesh.world().
///
/// Within a replica, each rank reads a contiguous run of the samples, one after the other, in
/// pieces that stay in its cache until they are written (see SampleScatter). The files have no
/// names, so that nothing is left behind however the process ends. Memory: pieces; with a codec, a
/// block for each part of the replica. With StageOptions::keep, complete files are named at the end
/// (see KeptStage).
///
/// Fields of labels are a second tensor with its own blocks, staged after the samples of the split.
/// The staged labels are then searched for foreground.
class Stager {
 public:
  /// Throws Error if the directory cannot be used.
  ///
  /// With `job` null the run stages alone, and constructor and run() are collective over
  /// mesh.world(). Otherwise `job` has all ranks of a job whose runs, on consecutive ranks, use
  /// equal data and meshes, and both are collective over it. Each run stages a share of the samples
  /// and gets the rest from the others (see gather_shares(), which a stop does not interrupt). A
  /// stage that several runs share is neither kept nor reused.
  Stager(const ProcessMesh& mesh, StageOptions options, std::vector<SplitSource> splits,
         const Comm* job = nullptr);
  Stager(const Stager&) = delete;
  Stager& operator=(const Stager&) = delete;

  /// Called on rank 0 with the number of samples staged so far.
  using Report = std::function<void(std::int64_t samples)>;
  /// Stages all splits, or reuses a kept stage, and searches for foreground. Returns nothing if
  /// `must_stop` returned true on some rank; with options.keep, a complete stage is kept
  /// nevertheless. If a node has too little space, throws Error on every rank before anything is
  /// written. Errors of reading or writing are thrown on this rank only.
  std::optional<StagedSplits> run(const std::function<bool()>& must_stop, const Report& report);
  const StageRecord& record() const { return record_; }

  /// The number of rounds between two collective checks whether to stop, and from a check to its
  /// result: ranks may be this many rounds apart, and stopping takes up to twice as many. Large
  /// samples have fewer, because little of the job's time may be left.
  static std::int64_t rounds_between_stops(std::int64_t sample_bytes);

 private:
  /// One tensor of a split: its samples, or their labels.
  struct Field {
    std::size_t split = 0;  // among splits_
    bool is_labels = false;
  };
  /// A field being staged: the samples that this rank reads, and the targets read so far.
  struct Work {
    StageFile file;
    NodeFiles files;        // until they are adopted by `file`
    StagedSamples samples;  // the parts' boxes of the slots of this run
    Range share;            // this run's slots; all others here count from its first
    Range run;              // the slots that this rank reads
    Descriptor copies;      // an empty file for slots staged elsewhere; unused in a run alone
    std::vector<float> targets;
  };

  /// Reads one sample; empty if this rank reads none.
  using Read = std::function<void(const VoxelSink& sink)>;

  const SplitSource& split_of(const Field& field) const { return splits_[field.split]; }
  StagedSamples samples_in(const Field& field, const Range& slots) const;
  std::vector<std::int64_t> values_of(const StagedSamples& samples, std::int64_t slots) const;
  std::int64_t bytes_of(const Field& field, const Range& slots) const;
  std::int64_t bytes_of_largest(const Field& field) const;
  DataType type_of(const Field& field) const {
    const Dataset& data = *split_of(field).data;
    return field.is_labels ? data.target_type() : data.format().type();
  }
  std::string title_of(const Field& field) const;
  std::string key() const;
  std::vector<std::string> names() const;
  bool take_up_kept(std::vector<Work>& works);
  void discard();
  void require_space(double share_of_raw);
  std::int64_t runs() const { return twins_ ? twins_->size() : 1; }
  std::int64_t run_number() const { return twins_ ? twins_->rank() : 0; }
  Range share_of(const SplitSource& split, std::int64_t replica, std::int64_t run) const;
  Work open(const Field& field, Descriptor file) const;
  Work begin(const Field& field) const;
  bool stage(const Field& field, Work& work, const std::function<bool()>& must_stop,
             const Report& report);
  static Read read_of(const Field& field, SampleReader& reader, std::int64_t number,
                      std::span<float> targets);
  std::vector<std::byte> try_deflate(const Field& field, const Read& read,
                                     std::int64_t bytes_of_sample);
  std::optional<std::vector<Foreground>> foreground_in(
      const Field& field, Work& work, const std::function<bool()>& must_stop) const;
  StageFile whole(const Field& field, Work& work);
  void keep(const std::vector<Work>& works);
  std::optional<StagedSplits> staged(std::vector<Work>& works,
                                     const std::function<bool()>& must_stop);
  void finish_record(const ReadCounts& read, double seconds);
  std::vector<float> all_targets(const SplitSource& split, const Work& work) const;

  const ProcessMesh& mesh_;
  const Comm& job_;            // mesh_.world() in a run alone
  std::optional<Comm> twins_;  // the ranks of all runs that keep these blocks; none in a run alone
  std::optional<Comm> near_;   // the twins that can open each other's files
  StageOptions options_;
  std::vector<SplitSource> splits_;
  std::vector<Field> fields_;
  StageDirectory directory_;
  std::string key_;  // the key of the stage to keep or to reuse
  std::optional<KeptStage> kept_;
  StageRecord record_;
};

}  // namespace halomesh
