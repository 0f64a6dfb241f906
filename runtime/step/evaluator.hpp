// SPDX-License-Identifier: Apache-2.0
// One forward-only pass over a split: errors summed over all ranks, each sample exactly once.
// Must not depend on training.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "partition/samples/sample_order.hpp"
#include "runtime/load/loader.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/step/executor.hpp"
#include "src/nn/loss.hpp"

namespace halomesh {

/// Quality on a split, the same on every rank.
struct Evaluation {
  double loss = 0;
  double score = 0;
  std::int64_t samples = 0;
  double seconds = 0;
  bool stopped = false;                  ///< true if it ended early: the other members are then
                                         ///< meaningless
  std::vector<TargetQuality> targets{};  ///< filled for a regression
  std::vector<ClassQuality> classes{};   ///< filled for a segmentation
  Score kind = Score::kMae;              ///< the meaning of `score`
  std::optional<ClassScores> labels{};   ///< filled for classes of samples

  /// True if the samples have labels, all of them of the background.
  bool is_empty() const;
};

/// Receives predictions on each part that owns some of the network's output: the sample numbers,
/// and views of the predictions and targets.
using PredictionSink = std::function<void(std::span<const std::int64_t> samples, ConstView output,
                                          AnyConstView targets)>;

/// Collective over mesh.world(). Runs order.validation_steps() forward passes; `loader` reads the
/// executor's input_span() of order.local_batch samples, with targets on the parts that own some of
/// the output. Ragged last batches count each sample once. `must_stop` is called once per batch;
/// the pass ends soon after it returned true on some rank. Pass it on all ranks or on none. With
/// `exact`, errors are added up exactly: the result has the same bits on every mesh if those of the
/// outputs are.
Evaluation evaluate(const ProcessMesh& mesh, Executor& executor, Loader& loader, Loss& loss,
                    const SampleOrder& order, const PredictionSink& sink = {},
                    const std::function<bool()>& must_stop = {}, bool exact = false);

/// The targets of a batch for a block of the output. Throws Error unless they span its box.
AnyConstView targets_of(const Batch& batch, const Loss& loss, ConstView output);
/// The input of a loader's batch in the form that the executor takes: always order.local_batch
/// samples, of which the first batch.count are valid.
AnyConstView input_view(const Batch& batch, const Box& span, std::int64_t local_batch);

}  // namespace halomesh
