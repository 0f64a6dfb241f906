// SPDX-License-Identifier: Apache-2.0
// Runs a checkpoint's network over one split of a data set; shared by eval and predict.
#pragma once

#include <memory>
#include <optional>

#include "partition/samples/sliding_windows.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/step/evaluator.hpp"
#include "src/apps/options/options.hpp"
#include "src/apps/train/network_on_mesh.hpp"

namespace halomesh {

/// Declares --checkpoint --data --split --parts --batch --input --windows --overlap --pad
/// --affine-mismatch.
void add_evaluation_options(Options& options);

/// The file of --checkpoint: the given file, or the newest checkpoint in it if it is a run's
/// directory. Collective over `world`.
std::string checkpoint_file(const Comm& world, const Options& options);

/// The shape of the samples: that of --input, or the network's. Throws UsageError where it has
/// other channels than the network.
Shape sample_shape(const Options& options, const NetworkSpec& network);

/// A checkpoint's network and the data that it is to be run over: samples as they are, or volumes
/// by sliding windows.
class CheckpointEvaluation {
 public:
  /// Collective over `world`. Throws UsageError for options that do not fit the network, and Error
  /// where checkpoint or data cannot be read.
  CheckpointEvaluation(const Comm& world, const Options& options);

  const Dataset& data() const { return *data_; }
  const NetworkSpec& network() const { return network_->spec; }
  /// Classes or targets.
  std::int64_t outputs() const { return network_->geometry.tensors().back().shape.c; }

  /// Collective; once. `sink` is called on the ranks that own some of the output of a sample.
  Evaluation run(const PredictionSink& sink = {});

 private:
  Evaluation run_whole(Executor& executor, const PredictionSink& sink,
                       const std::function<bool()>& must_stop);
  Evaluation run_windows(Executor& executor, const PredictionSink& sink,
                         const std::function<bool()>& must_stop);

  std::unique_ptr<NetworkOnMesh> network_;
  std::unique_ptr<const Dataset> data_;
  std::optional<WindowPlacement> windows_;
  float padding_ = 0;
  std::int64_t local_batch_ = 1;
};

}  // namespace halomesh
