// SPDX-License-Identifier: Apache-2.0
// Trains a small CosmoFlow on any mesh: its data set, its runs and their losses.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/cosmoflow.hpp"
#include "rng.hpp"
#include "runtime/data/example.hpp"
#include "runtime/data/open_dataset.hpp"
#include "runtime/data/tfrecord.hpp"
#include "runtime/train/checkpoint.hpp"
#include "runtime/train/trainer.hpp"
#include "src/nn/losses/mean_squared_error.hpp"
#include "src/nn/optimizers/registry.hpp"

namespace halomesh {

inline constexpr Shape kTrainingInput{4, 32, 32, 32};
inline constexpr std::int64_t kTrainingSamples = 16;
inline constexpr std::int64_t kGlobalBatch = 4;

/// Writes `directory`/train: particle counts around a density that follows the first target, so
/// that the losses fall. Local.
inline void write_training_data(const std::filesystem::path& directory,
                                const Shape& input = kTrainingInput) {
  std::filesystem::create_directories(directory / "train");
  TfRecordWriter writer(directory / "train" / "samples.tfrecord", Compression::kNone);
  std::vector<std::int16_t> counts(static_cast<std::size_t>(input.volume()));
  for (std::int64_t sample = 0; sample < kTrainingSamples; ++sample) {
    const CounterRng rng(5, RandomUse::kSynth, static_cast<std::uint32_t>(sample));
    std::vector<float> targets;
    for (std::uint64_t t = 0; t < 4; ++t)
      targets.push_back(2.0F * rng.uniform((std::uint64_t{1} << 40) + t) - 1.0F);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      // Exponential counts of many particles: equal neighbours, whose pooling ties rounding breaks
      // one way or the other, are rare.
      const double mean = 150 + 100 * static_cast<double>(targets[0]);
      counts[i] = static_cast<std::int16_t>(-mean * std::log(1.0 - rng.uniform_double(i)));
    }
    writer.write(encode_example(counts, targets));
  }
  writer.commit();
}

/// The options of a run.
struct TrainingRequest {
  std::int64_t kernel = 2;
  MeshShape mesh;
  std::int64_t steps = 20;
  std::filesystem::path data, out;                ///< `out` is made; its checkpoints are kept
  std::optional<std::filesystem::path> resume{};  ///< a checkpoint to resume from
  double perturbation = 0;  ///< relative, of each initial weight, in a random direction
  std::uint64_t perturbation_seed = 0;
  Shape input = kTrainingInput;
  std::int64_t conv_layers = 4;
  GradientKernels kernels = GradientKernels::kAuto;
  Reduction reduction = Reduction::kAuto;
  std::function<void(const Executor&)> after{};  ///< called when the run is done, if any
  std::string cuts = "auto";                     ///< of convolutions
  OptimizerOptions optimizer{"sgd", 0.9, 1e-4};
  std::int64_t accumulate = 1;
  DataType payload = DataType::kFloat32;  ///< of gradients in messages
  bool allow_changes = false;             ///< when resuming
  std::vector<GradientSkip> skips{};
  bool reproducible = false;
  std::int64_t filters = 8;
  std::optional<double> clip_norm{};  ///< none: the optimizer's own
};

/// The loss of each step, oldest first, as written by rank 0. Local.
inline std::vector<double> read_losses(const std::filesystem::path& metrics) {
  std::vector<double> losses;
  std::ifstream in(metrics);
  for (std::string line; std::getline(in, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.at("event") == "step") losses.push_back(record.at("loss").get<double>());
  }
  return losses;
}

/// The network: 4 convolutions, down to 2^3, and dropout.
inline Model make_training_network(std::int64_t kernel, const Shape& input = kTrainingInput,
                                   std::int64_t conv_layers = 4,
                                   GradientKernels kernels = GradientKernels::kAuto,
                                   std::int64_t filters = 8) {
  CosmoFlowOptions network;
  network.input = input;
  network.kernel = kernel;
  network.filters = filters;
  network.conv_layers = conv_layers;
  network.kernels = kernels;
  return make_cosmoflow(network);
}

/// Trains on `comm`, of mesh.ranks() ranks, with dropout, momentum and weight decay, and a
/// checkpoint every 10 steps. Collective; the same losses on every rank.
inline std::vector<double> train(const Comm& comm, const TrainingRequest& request) {
  const ProcessMesh mesh(comm, request.mesh);
  Model model = make_training_network(
      request.kernel, request.input, request.conv_layers,
      request.reproducible ? GradientKernels::kReproducible : request.kernels, request.filters);
  if (!request.reproducible) model.set_cuts(parse_cuts(request.cuts));
  const ModelGeometry geometry = model.geometry(request.mesh.parts);
  constexpr std::uint64_t kSeed = 21;
  TrainerOptions options;
  options.optimizer = request.optimizer;
  options.payload = request.payload;
  options.allow_changes = request.allow_changes;
  options.skips = request.skips;
  options.reproducible = request.reproducible;
  options.clip_norm = request.clip_norm;
  Parameters parameters(geometry, mesh.part(), states_of(options));
  parameters.initialize(kSeed);
  const CounterRng signs(request.perturbation_seed, RandomUse::kSynth);
  for (std::size_t i = 0; i < parameters.values().size(); ++i)
    parameters.values()[i] *=
        static_cast<float>(1.0 + (signs.uniform(i) < 0.5F ? -1 : 1) * request.perturbation);
  const auto data = open_dataset(comm, request.data, "train", request.input, 4);
  options.global_batch = kGlobalBatch;
  options.epochs = 0;
  options.steps = request.steps;
  options.seed = kSeed;
  options.accumulate = request.accumulate;
  options.schedule.peak = 0.0005;
  options.evaluate_every = 0;
  options.checkpoint_every = 10;
  options.keep = 0;
  options.reduction = request.reduction;
  options.out = request.out;
  if (comm.rank() == 0) std::filesystem::create_directories(request.out);
  comm.barrier();
  MeanSquaredError loss(geometry.tensors().back().shape);
  Trainer trainer(mesh, model, geometry, parameters, loss, *data, nullptr, options);
  if (request.resume) trainer.resume(load_checkpoint(mesh, geometry, parameters, *request.resume));
  trainer.run();
  if (request.after) request.after(trainer.executor());
  comm.barrier();
  return read_losses(request.out / "metrics.jsonl");
}

}  // namespace halomesh
