// Running a checkpoint's network over one split: see checkpoint_evaluation.hpp.
#include "src/apps/checkpoint_evaluation.hpp"

#include <filesystem>

#include "runtime/direct_loader.hpp"
#include "src/apps/network_on_mesh.hpp"
#include "src/apps/run_record.hpp"

namespace halomesh {

void add_evaluation_options(Options& options) {
  options.group("Evaluation")
      .add_required<std::string>("checkpoint", "FILE",
                                 "a checkpoint, or a run's directory: its newest one")
      .add_required<std::string>("data", "DIR", "directory that holds the split")
      .add<std::string>("split", "NAME", "validation", "which samples: validation or train")
      .add<PartGrid>("parts", "DxHxW", PartGrid{}, "parts that a sample is cut into")
      .add<std::int64_t>("batch", "B", 0, "samples at once, over all replicas; 0: one a replica")
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
      require(latest.has_value(), cat(given.string(), " holds no checkpoint"),
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
  const auto dataset =
      Dataset::open(world, options.get<std::string>("data"), options.get<std::string>("split"),
                    network.model.input(), model_options.get<std::int64_t>("targets"));
  load_checkpoint(network.mesh, network.geometry, network.parameters, file,
                  LoadWhat::kParametersOnly);
  Executor executor(network.mesh.group(), network.model, network.geometry, network.parameters,
                    local, false);
  DirectLoader loader(dataset->reader(),
                      {dataset->shape(), executor.input_span(),
                       executor.output().span.empty() ? 0 : dataset->targets(), local,
                       network.model.input_type(), network.mesh.replica()});
  const SampleOrder order{Shuffle::kGlobal, 0, dataset->size(), shape.replicas, local};
  return evaluate(network.mesh, executor, loader, order, sink);
}

}  // namespace halomesh
