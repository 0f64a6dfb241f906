// SPDX-License-Identifier: Apache-2.0
// Runs a checkpoint's network over one split: see checkpoint_evaluation.hpp.
#include "src/apps/train/checkpoint_evaluation.hpp"

#include <filesystem>

#include "runtime/data/open_dataset.hpp"
#include "runtime/load/direct_loader.hpp"
#include "runtime/posix/stop_signals.hpp"
#include "runtime/train/checkpoint_directory.hpp"
#include "src/apps/launch/run_record.hpp"
#include "src/apps/train/network_on_mesh.hpp"

namespace halomesh {

void add_evaluation_options(Options& options) {
  options.group("Evaluation")
      .add_required<std::string>("checkpoint", "FILE",
                                 "checkpoint file, or the --out directory of a run for its latest")
      .add_required<std::string>("data", "DIR", "data set: directory that holds the split")
      .add<std::string>("split", "NAME", "validation", "samples to use: validation or train")
      .add<PartGrid>("parts", "DxHxW", PartGrid{},
                     "parts along depth, height and width that each sample is cut into")
      .add<std::int64_t>("batch", "B", 0, "samples at a time over all replicas; 0: one per replica")
      .at_least(0);
}

std::string checkpoint_file(const Comm& world, const Options& options) {
  const std::filesystem::path given = options.get<std::string>("checkpoint");
  std::string file;
  if (world.rank() == 0) {
    file = given.string();
    if (std::filesystem::is_directory(given)) {
      const auto nested = given / "checkpoints";
      const auto latest = latest_checkpoint(std::filesystem::is_directory(nested) ? nested : given);
      require(latest.has_value(), text("{} holds no checkpoint", given.c_str()),
              "name a checkpoint file, or the --out directory of a training run");
      file = latest->string();
    }
  }
  return world.broadcast(file, 0);
}

Evaluation evaluate_checkpoint(const Comm& world, const Options& options,
                               const PredictionSink& sink) {
  bind_threads(world);
  const std::string file = checkpoint_file(world, options);
  const Options model_options = checkpoint_model_options(world, file);
  NetworkOnMesh network(world, options.get<PartGrid>("parts"), model_options);
  const MeshShape& shape = network.mesh.shape();
  const auto batch = options.get<std::int64_t>("batch");
  const std::int64_t local = local_batch(batch == 0 ? shape.replicas : batch, shape);
  const auto dataset = open_dataset(
      world, options.get<std::string>("data"), options.get<std::string>("split"),
      network.model.input(), targets_of(*network.loss, network.geometry.tensors().back().shape));
  load_checkpoint(network.mesh, network.geometry, network.parameters, file,
                  LoadWhat::kParametersOnly);
  Executor executor(network.mesh.group(), network.model, network.geometry, network.parameters,
                    local, false);
  Loss& loss = *network.loss;
  DirectLoader loader(dataset->reader(),
                      {dataset->shape(), executor.input_span(),
                       loss.target_box(executor.output().span), local, network.model.input_type(),
                       network.mesh.replica(), dataset->target_shape(), dataset->target_type()});
  const SampleOrder order{Shuffle::kGlobal, 0, dataset->size(), shape.replicas, local};
  const StopSignals signals;
  Evaluation result = evaluate(network.mesh, executor, loader, loss, order, sink,
                               [&signals] { return signals.requested(); });
  require(!result.stopped, signals.name() + " received: stopped before the last sample",
          "nothing has been written; give the same command again");
  return result;
}

}  // namespace halomesh
