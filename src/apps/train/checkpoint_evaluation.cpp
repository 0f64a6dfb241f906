// SPDX-License-Identifier: Apache-2.0
// Runs a checkpoint's network over one split: see checkpoint_evaluation.hpp.
#include "src/apps/train/checkpoint_evaluation.hpp"

#include <functional>
#include <iostream>
#include <utility>

#include "printable.hpp"
#include "runtime/data/archive.hpp"
#include "runtime/data/open_dataset.hpp"
#include "runtime/load/direct_loader.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/stop_signals.hpp"
#include "runtime/train/checkpoint.hpp"
#include "runtime/train/checkpoint_file.hpp"
#include "runtime/train/window_evaluator.hpp"
#include "src/apps/launch/run_record.hpp"
#include "src/apps/options/misplacement_option.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/source_options.hpp"
#include "src/apps/train/memory_choice.hpp"

namespace halomesh {

void add_evaluation_options(Options& options, bool needs_checkpoint) {
  options.group("Evaluation");
  constexpr const char* kHelp = "checkpoint file, or the --out directory of a run for its latest";
  if (needs_checkpoint)
    options.add_required<std::string>("checkpoint", "FILE", kHelp);
  else
    options.add<std::string>("checkpoint", "FILE", "", kHelp);
  options.add_required<std::string>("data", "DIR", "data set: directory that holds the split")
      .add<std::string>("split", "NAME", "validation", "samples to use: validation or train")
      .add<PartGrid>("parts", "DxHxW", PartGrid{},
                     "parts along depth, height and width that each sample is cut into")
      .add<std::int64_t>("batch", "B", 0,
                         "samples, or windows, at a time over all replicas; 0: one per replica")
      .at_least(0)
      .add<Shape>("input", "DxHxWxC", Shape{1, 1, 1, 1}, "")
      .hidden()
      .show("input", "DxHxWxC", "",
            "extents and channels of the samples where they differ from those of training: the "
            "network then runs on whole samples, or with --windows on windows of them")
      .add_choice(
          "windows", {"off", "gaussian", "uniform"}, "off",
          "classify voxels by windows of the extents that the network was trained on, which "
          "slide over each sample; their outputs are averaged with weights that fall off "
          "from their centres (also without a value), or with equal ones; without --input, samples "
          "may have any extents")
      .implicit("gaussian")
      .add<double>("overlap", "X", 0.5, "share of a window that it has in common with the next")
      .at_least(0)
      .below(1)
      .needs("windows")
      .add<double>("pad", "VALUE", 0,
                   "allow samples smaller than a window, or of extents that the network cannot "
                   "halve: voxels outside have this value and do not count")
      .zero_is_value();
  add_misplacement_option(options);
  add_source_options(options);
}

Shape sample_shape(const Options& options, const NetworkSpec& network) {
  const Shape& trained = network.settings.input;
  if (!options.is_given("input")) return trained;
  const auto given = options.get<Shape>("input");
  if (given.c != trained.c)
    throw UsageError(
        fmt::format("--input {} for a network of {} channels", given, trained.c),
        fmt::format("give extents of the samples such as {}x{}x{}x{}, and data with such channels",
                    given.d, given.h, given.w, trained.c));
  return given;
}

Shape shape_of_samples(const Options& options, const NetworkSpec& network) {
  if (options.get<std::string>("windows") == "off" || options.is_given("input"))
    return sample_shape(options, network);
  return {network.settings.input.c, 0, 0, 0};
}

DataSource evaluated_source(const Comm& world, const Options& options) {
  DataSource source = source_of(options);
  const auto share_in = [&](const std::string& file) {
    return on_first_rank(world, [&] {
      const TrainingState state = read_state(file);
      const auto found = state.run.find(kShareOption);
      const bool is_split = found == state.run.end() || !own_splits(source.directory).empty();
      return is_split ? std::string("0") : found->second;
    });
  };
  source.share =
      std::stod(with_newest_checkpoint(world, options.get<std::string>("checkpoint"), share_in));
  return source;
}

namespace {

bool slides(const Options& options) { return options.get<std::string>("windows") != "off"; }

/// The extents of the network's input: those of its training if windows slide over the samples;
/// otherwise those of whole samples, padded if necessary.
Spatial network_extents(const Options& options, NetworkSpec network) {
  if (slides(options)) return network.settings.input.spatial();
  const Shape samples = sample_shape(options, network);
  network.settings.input = samples;
  const auto padded_extents = network.network->padded_extents;
  if (padded_extents == nullptr) return samples.spatial();
  const Spatial padded = padded_extents(network.settings);
  if (padded != samples.spatial() && !options.is_given("pad"))
    throw UsageError(
        fmt::format("samples of {} do not fit the network, which would need {}x{}x{}x{}", samples,
                    padded[0], padded[1], padded[2], samples.c),
        "give --pad with the value of voxels outside, or --windows");
  return padded;
}

/// Throws Error for the first sample that is smaller than a window.
void check_windows(const Dataset& data, const Shape& window) {
  for (std::int64_t sample = 0; sample < data.size(); ++sample) {
    const Shape shape = data.shape_of(sample);
    require(shape.d >= window.d && shape.h >= window.h && shape.w >= window.w,
            text("sample {} of {} has {}, windows are {}", data.name(sample),
                 data.directory().c_str(), shape, window),
            "give --pad with the value of voxels outside");
  }
}

/// The split of samples to predict: that of --split; without it the default, or none where the data
/// have no splits, as a directory of samples or a single file.
std::string split_of(const Comm& world, const Options& options, const DataSource& source) {
  auto split = options.get<std::string>("split");
  if (options.is_given("split")) return split;
  return on_first_rank(world, [&] {
    const std::filesystem::path& data = source.directory;
    std::error_code ignored;
    const bool is_there = std::filesystem::is_directory(data / split, ignored) ||
                          std::filesystem::exists(data / archive_name(split, 0), ignored) ||
                          (source.share > 0 && source.of_split(split) != data &&
                           std::filesystem::is_directory(data, ignored));
    return is_there ? split : std::string();
  });
}

/// Sets windows aside unless the network classifies voxels: no other can use samples of different
/// extents.
void set_windows_aside(const Comm& world, Options& options, const std::string& network) {
  const std::size_t before = options.notes().size();
  for (const char* const name : {"windows", "pad"})
    options.set_aside(name,
                      fmt::format("with {}, which predicts numbers of a whole sample", network),
                      "leave it out");
  if (options.notes().size() > before && world.rank() == 0)
    std::cerr << "note: " + printable(options.notes().back()) + '\n';
}

WindowPlacement placement_of(const Options& options) {
  if (slides(options))
    return {options.get<double>("overlap"), options.get<std::string>("windows") == "gaussian",
            options.is_given("pad")};
  return {0, false, true};  // one window: the padded sample
}

}  // namespace

CheckpointEvaluation::CheckpointEvaluation(const Comm& world, Options options, bool has_targets) {
  bind_threads(world);
  const auto given = options.get<std::string>("checkpoint");
  Options model_options = checkpoint_model_options(world, given);
  const NetworkSpec trained = network_spec(model_options);
  if (!classifies_voxels(trained)) set_windows_aside(world, options, trained.network->name);
  const Shape samples = shape_of_samples(options, trained);
  const Spatial extents = network_extents(options, trained);
  const Shape input{samples.c, extents[0], extents[1], extents[2]};
  if (slides(options) || input.spatial() != samples.spatial()) {
    windows_ = placement_of(options);
    if (samples.d > 0) SlidingWindows(samples.spatial(), extents, *windows_);
  }
  model_options.replace("input", fmt::format("{}", input));
  NetworkSpec network = network_spec(model_options);
  network.settings.predicts = true;
  network_ = std::make_unique<NetworkOnMesh>(
      world, PlannedNetwork(world.size(), options.get<PartGrid>("parts"), std::move(network)));
  const MeshShape& shape = network_->mesh.shape();
  const auto batch = options.get<std::int64_t>("batch");
  local_batch_ = local_batch(batch == 0 ? shape.replicas : batch, shape);
  padding_ = static_cast<float>(options.get<double>("pad"));
  const auto open = has_targets ? open_dataset : open_inputs;
  DataSource source = evaluated_source(world, options);
  const std::string split =
      has_targets ? options.get<std::string>("split") : split_of(world, options, source);
  if (split.empty()) source.share = 0;
  data_ = open(world, source, split, samples,
               targets_of(*network_->loss, network_->geometry.tensors().back().shape));
  heed_misplacement(world, options, *data_);
  if (windows_ && !windows_->may_pad) check_windows(*data_, input);
  require_memory_of_run(
      *network_,
      {.mesh = shape, .batch = local_batch_, .optimizer_states = 0, .trains = false, .splits = 1});
  checkpoint_ = with_newest_checkpoint(world, given, [&](const std::string& file) {
    load_checkpoint(network_->mesh, network_->geometry, network_->parameters, file,
                    LoadWhat::kNeededParameters);
    return file;
  });
}

Evaluation CheckpointEvaluation::run(const PredictionSink& sink) {
  Executor executor(network_->mesh.group(), network_->model, network_->geometry,
                    network_->parameters, local_batch_, false);
  const StopSignals signals;
  const std::function<bool()> must_stop = [&signals] { return signals.requested(); };
  Evaluation result =
      windows_ ? run_windows(executor, sink, must_stop) : run_whole(executor, sink, must_stop);
  require(!result.stopped, signals.name() + " received: stopped before the last sample",
          "nothing has been written; give the same command again");
  return result;
}

Evaluation CheckpointEvaluation::run_whole(Executor& executor, const PredictionSink& sink,
                                           const std::function<bool()>& must_stop) {
  const ProcessMesh& mesh = network_->mesh;
  Loss& loss = *network_->loss;
  DirectLoader loader(
      data_->reader(),
      {data_->shape(), executor.input_span(), loss.target_box(executor.output().span), local_batch_,
       network_->model.input_type(), mesh.replica(), data_->target_shape(), data_->target_type()});
  const SampleOrder order{Shuffle::kGlobal, 0, data_->size(), mesh.shape().replicas, local_batch_};
  return evaluate(mesh, executor, loader, loss, order, sink, must_stop);
}

Evaluation CheckpointEvaluation::run_windows(Executor& executor, const PredictionSink& sink,
                                             const std::function<bool()>& must_stop) {
  return evaluate_windows(
      network_->mesh, executor, network_->geometry.tensors().back().owned,
      [this](const Shape& output) { return network_->spec.make_loss(output); },
      {.data = data_.get(),
       .window = network_->model.input().spatial(),
       .placement = *windows_,
       .padding = padding_,
       .local_batch = local_batch_,
       .type = network_->model.input_type()},
      sink, must_stop);
}

}  // namespace halomesh
