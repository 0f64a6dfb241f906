// SPDX-License-Identifier: Apache-2.0
// Runs a checkpoint's network over one split of a data set; shared by eval and predict.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "partition/samples/sliding_windows.hpp"
#include "runtime/data/data_source.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/step/evaluator.hpp"
#include "src/apps/options/options.hpp"
#include "src/apps/train/network_on_mesh.hpp"

namespace halomesh {

/// Declares --checkpoint --data --split --parts --batch --input --windows --overlap --pad
/// --affine-mismatch.
void add_evaluation_options(Options& options, bool needs_checkpoint = true);

/// The shape of the samples: that of --input, or the network's. Throws UsageError if its channels
/// are not the network's.
Shape sample_shape(const Options& options, const NetworkSpec& network);
/// These extents, or 0 if samples may have any.
Shape shape_of_samples(const Options& options, const NetworkSpec& network);
/// The data of --data, divided into splits as in the training of --checkpoint. Collective.
DataSource evaluated_source(const Comm& world, const Options& options);

/// A checkpoint's network and the data to evaluate: samples as they are, or volumes by sliding
/// windows.
class CheckpointEvaluation {
 public:
  /// Collective over `world`. Throws UsageError for options that do not fit the network, and Error
  /// if checkpoint or data cannot be read.
  /// `has_targets`: whether samples must have them.
  CheckpointEvaluation(const Comm& world, Options options, bool has_targets = true);

  /// The file that was read.
  const std::string& checkpoint() const { return checkpoint_; }
  const Dataset& data() const { return *data_; }
  const NetworkSpec& network() const { return network_->spec; }
  const Loss& loss() const { return *network_->loss; }
  /// The number of classes or targets.
  std::int64_t outputs() const { return network_->geometry.tensors().back().shape.c; }

  /// Runs the evaluation. Collective; only once. `sink` is called on the ranks that own some of a
  /// sample's output.
  Evaluation run(const PredictionSink& sink = {});

 private:
  Evaluation run_whole(Executor& executor, const PredictionSink& sink,
                       const std::function<bool()>& must_stop);
  Evaluation run_windows(Executor& executor, const PredictionSink& sink,
                         const std::function<bool()>& must_stop);

  std::string checkpoint_;
  std::unique_ptr<NetworkOnMesh> network_;
  std::unique_ptr<const Dataset> data_;
  std::optional<WindowPlacement> windows_;
  float padding_ = 0;
  std::int64_t local_batch_ = 1;
};

}  // namespace halomesh
