// SPDX-License-Identifier: Apache-2.0
// Runs a checkpoint's network over one split of a data set; shared by eval and predict.
#pragma once

#include "runtime/data/dataset.hpp"
#include "runtime/step/evaluator.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// Declares --checkpoint --data --split --parts --batch.
void add_evaluation_options(Options& options);

/// The file of --checkpoint: the given file, or the newest checkpoint in it if it is a run's
/// directory. Collective over `world`.
std::string checkpoint_file(const Comm& world, const Options& options);

/// Runs the network of the checkpoint over the split. Collective over `world`; `sink` is called on
/// the ranks that own the network's output.
Evaluation evaluate_checkpoint(const Comm& world, const Options& options,
                               const PredictionSink& sink = {});

}  // namespace halomesh
