// Where a trainer's batches come from: the data set's files, or a stage that is made of them first.
// Knows nothing of steps or of the network beyond the geometry of its input.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "partition/model_geometry.hpp"
#include "runtime/dataset.hpp"
#include "runtime/loader.hpp"
#include "runtime/metrics.hpp"
#include "runtime/process_mesh.hpp"
#include "runtime/stager.hpp"

namespace halomesh {

/// The samples of one split and the order of their use; `data` is null where there are none.
struct InputSplit {
  const Dataset* data = nullptr;
  SampleOrder order;
};

/// The loaders of one run. The data sets and the mesh must outlive it.
class TrainingInput {
 public:
  /// `wants_targets`: whether this rank needs them. Nothing is read before open().
  TrainingInput(const ProcessMesh& mesh, const ModelGeometry& geometry, DataType type,
                bool wants_targets, const InputSplit& training, const InputSplit& validation,
                std::optional<StageOptions> stage);

  /// Makes the loaders, after staging if that is asked for, which then is told to a terminal and to
  /// `metrics`. False when `must_stop` ended it on some rank. Collective over mesh.world().
  bool open(const std::function<bool()>& must_stop, MetricsLog& metrics);

  /// After open().
  Loader& training() { return *training_loader_; }
  Loader& validation() { return *validation_loader_; }

 private:
  BatchSpec spec(const InputSplit& split) const;
  std::optional<std::vector<StagedSplit>> stage(const std::function<bool()>& must_stop,
                                                MetricsLog& metrics);

  const ProcessMesh& mesh_;
  KeptSample sample_;
  DataType type_;
  bool wants_targets_;
  InputSplit training_, validation_;
  std::optional<StageOptions> options_;
  std::unique_ptr<Stager> stager_;  // what it keeps is locked as long as it lives
  std::unique_ptr<Loader> training_loader_, validation_loader_;
};

}  // namespace halomesh
