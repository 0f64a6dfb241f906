// SPDX-License-Identifier: Apache-2.0
// The source of a trainer's batches: the data set's files, or a stage of them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "partition/model_geometry.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/load/crop_options.hpp"
#include "runtime/load/loader.hpp"
#include "runtime/load/stage_loader.hpp"
#include "runtime/load/staged_volumes.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/stage/stager.hpp"

namespace halomesh {

/// The samples of one split and the order of their use; `data` is null if the split does not exist.
struct InputSplit {
  const Dataset* data = nullptr;
  SampleOrder order;
  const CropOptions* crops = nullptr;  ///< null: samples have the extents of the network's input
};

/// The loaders of one run. The data sets and the mesh must outlive it.
class TrainingInput {
 public:
  /// `targets` is the block of targets that this rank needs. Nothing is read before open(). Throws
  /// Error if a network that reads `type` cannot take the values of the data sets, and for the
  /// first sample whose extents do not fit the crops.
  TrainingInput(const ProcessMesh& mesh, const ModelGeometry& geometry, DataType type,
                const Box& targets, const InputSplit& training, const InputSplit& validation,
                std::optional<StageOptions> stage);

  /// Finds the foreground for random crops, and creates the loaders, after staging if requested;
  /// rank 0 calls `report` with the number of samples staged so far. Returns false if `must_stop`
  /// stopped it on some rank. Collective over mesh.world(). Throws Error as Stager::run() and
  /// scan_foreground() do.
  bool open(const std::function<bool()>& must_stop, const Stager::Report& report);
  /// The two halves of open() with a stage, both collective over mesh.group(). All runs of `job`
  /// may share the first half: see Stager.
  std::optional<StagedSplits> stage(const std::function<bool()>& must_stop,
                                    const Stager::Report& report, const Comm* job = nullptr);
  void open_staged(StagedSplits staged);

  /// The number of samples that open() stages; 0 without a stage.
  std::int64_t samples_to_stage() const;
  /// The record of staging, after stage(); null without one.
  const StageRecord* stage_record() const { return stager_ ? &stager_->record() : nullptr; }

  /// True if some sample is smaller than the network's input and centred in it.
  bool pads() const { return pads_; }
  /// The foreground of each training sample, after open() or open_staged(); empty unless crops are
  /// placed around it. The loaders, too, are valid from then on.
  const std::vector<Foreground>& foreground() const { return foreground_; }
  Loader& training() { return *training_loader_; }
  /// Not available if validation slides windows over the samples.
  Loader& validation() { return *validation_loader_; }
  /// The samples over which validation slides windows, if they are staged; otherwise null.
  StagedVolumes* validation_volumes() { return volumes_.get(); }

 private:
  BatchSpec spec(const InputSplit& split) const;
  std::unique_ptr<Loader> direct_loader(const InputSplit& split) const;
  bool needs_foreground() const {
    return training_.crops != nullptr && training_.crops->random && training_.crops->foreground > 0;
  }
  bool validates_windows() const {
    return validation_.data != nullptr && validation_.crops != nullptr && validation_.crops->random;
  }
  std::vector<Box> label_blocks() const;
  StagedSamples staged_samples(const InputSplit& split) const;
  std::optional<StagedSamples> staged_labels(const InputSplit& split,
                                             const std::vector<Box>& blocks) const;
  std::optional<StagedCrops> staged_crops(const InputSplit& split,
                                          const std::vector<Box>& label_blocks) const;

  const ProcessMesh& mesh_;
  StagedSample sample_;
  DataType type_;
  Box targets_;
  InputSplit training_, validation_;
  std::optional<StageOptions> options_;
  std::unique_ptr<Stager> stager_;  // keeps the kept stage locked
  std::unique_ptr<Loader> training_loader_, validation_loader_;
  std::unique_ptr<StagedVolumes> volumes_;
  std::vector<Foreground> foreground_;
  bool pads_ = false;
};

}  // namespace halomesh
