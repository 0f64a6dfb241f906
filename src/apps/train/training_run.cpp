// SPDX-License-Identifier: Apache-2.0
// One training run: see training_run.hpp.
#include "src/apps/train/training_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "counted.hpp"
#include "joined.hpp"
#include "printable.hpp"
#include "runtime/data/data_content.hpp"
#include "runtime/data/dataset_files.hpp"
#include "runtime/data/open_dataset.hpp"
#include "runtime/log/metrics.hpp"
#include "runtime/machine/binding.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/stop_signals.hpp"
#include "runtime/trace/run_timeline.hpp"
#include "runtime/train/checkpoint.hpp"
#include "runtime/train/trainer.hpp"
#include "src/apps/launch/output_directory.hpp"
#include "src/apps/launch/run_record.hpp"
#include "src/apps/launch/version.hpp"
#include "src/apps/options/misplacement_option.hpp"
#include "src/apps/options/mlperf_options.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/option_text.hpp"
#include "src/apps/options/source_options.hpp"
#include "src/apps/options/standardize_option.hpp"
#include "src/apps/options/train_options.hpp"
#include "src/apps/train/memory_choice.hpp"
#include "src/apps/train/network_on_mesh.hpp"
#include "src/apps/train/standardization.hpp"
#include "src/apps/train/target_names.hpp"
#include "src/apps/train/training_crops.hpp"
#include "src/apps/train/training_plan.hpp"
#include "src/apps/train/training_record.hpp"
#include "src/apps/train/values_of_data.hpp"
#include "src/nn/optimizers/registry.hpp"

namespace halomesh {
namespace {

/// Fills the parameters as --resume and --init-from say; empty for a run that starts at step 0.
std::optional<LoadedCheckpoint> load_parameters(NetworkOnMesh& network, const Options& options) {
  const auto load = [&](const std::string& file, LoadWhat what) {
    return load_checkpoint(network.mesh, network.geometry, network.parameters, file, what);
  };
  const auto resume = options.get<std::string>("resume");
  if (resume == "auto") {
    auto latest = load_latest_checkpoint(
        network.mesh, network.geometry, network.parameters,
        std::filesystem::path(options.get<std::string>("out")) / "checkpoints");
    if (latest) return latest;
  } else if (resume != "never") {
    return LoadedCheckpoint{resume, load(resume, LoadWhat::kAll), {}};
  }
  if (const auto first = options.get<std::string>("init-from"); !first.empty())
    load(first, LoadWhat::kParametersOnly);
  else
    network.spec.initialize(network.parameters, options.get<std::uint64_t>("seed"));
  return {};
}

/// The network's dropout; empty without such an option.
std::optional<double> dropout_of(const NetworkSpec& spec) {
  if (spec.network->option("dropout") == nullptr) return {};
  return spec.settings.get<double>("dropout");
}

/// The scales that an option gives a network: those of the checkpoint that the run starts from, or
/// what `measure()` finds in the training data. Records them as a setting of the network.
template <class Measure>
std::vector<ChannelScale> scales_of(const char* option, std::int64_t channels,
                                    const NetworkOnMesh& network, const Options& options,
                                    const std::optional<LoadedCheckpoint>& from,
                                    TrainerOptions& trainer, const Measure& measure) {
  if (network.spec.network->option(option) == nullptr) return {};
  auto numbers = options.get<std::string>(option);
  const auto first = options.get<std::string>("init-from");
  std::string stored = "off";
  if (from && from->state.model.contains(option))
    stored = from->state.model.at(option);
  else if (!from && !first.empty())
    stored = checkpoint_model_options(network.mesh.world(), first).get<std::string>(option);
  if (!from) require_scales(options, option, stored);
  if (numbers == "on") numbers = stored != "off" ? stored : to_text(measure());
  if (numbers != "off") trainer.model[option] = numbers;
  return parse_scales(option, numbers, channels);
}

/// Scales the network's input and targets as --standardize and --scale-targets say.
void scale_data(NetworkOnMesh& network, const Options& options,
                const std::optional<LoadedCheckpoint>& from, const Dataset& training,
                TrainerOptions& trainer) {
  const Comm& world = network.mesh.world();
  network.model.scale_counts(
      scales_of(kStandardizeOption, network.model.input().c, network, options, from, trainer,
                [&] { return channel_scales(world, training, kStandardizationSamples); }));
  if (training.has_labels()) return;
  const OutputRange outputs = output_range(*network.model.layers().back().layer);
  auto scales = scales_of(
      kScaleTargetsOption, training.targets(), network, options, from, trainer,
      [&] { return target_scales(target_ranges(world, training, training.size()), outputs); });
  if (!scales.empty()) network.loss->scale_targets(scales);
}

/// The targets that a network can be trained for: those that its outputs reach, unless a run goes
/// on or outputs stand for scaled targets.
TargetSpec targets_to_learn(const NetworkOnMesh& network, const Options& options,
                            TargetSpec targets) {
  const bool has_scales = network.spec.network->option(kScaleTargetsOption) != nullptr;
  if (targets.classes > 0 || targets.limits.are_labels ||
      (has_scales && options.get<std::string>(kScaleTargetsOption) != "off") ||
      resumed_file(options))
    return targets;
  const OutputRange outputs = output_range(*network.model.layers().back().layer);
  targets.limits = {outputs.low, outputs.high, false,
                    has_scales
                        ? "outputs of the network go no further: add --scale-targets, which maps "
                          "each target to their range"
                        : "outputs of the network go no further: scale the targets, or leave out "
                          "the last function of the network"};
  return targets;
}

/// The spacing of the voxels along d, h and w, equal where it is unknown. Warns of a sample whose
/// axes lie otherwise than those of the first.
std::array<double, 3> spacing_in(const Comm& world, const Dataset& data) {
  constexpr std::int64_t kMost = 64;  // samples to look at
  std::string differs;
  std::vector<double> spacing{1, 1, 1};
  const std::string found = on_first_rank(world, [&] {
    std::string first;
    for (std::int64_t i = 0; i < std::min(data.size(), kMost); ++i) {
      const auto placed = data.orientation_of(i);
      if (!placed) break;
      const VoxelTransform spaced = spacing_of(placed->affine());
      const std::string axes = axis_codes(placed->affine());
      if (i == 0) spacing = {spaced[0], spaced[5], spaced[10]};
      if (i == 0) first = axes;
      if (axes != first && differs.empty())
        differs = fmt::format("the axes of {} point to {}, those of {} to {}", data.name(i), axes,
                              data.name(0), first);
    }
    return to_text(spacing);
  });
  if (!differs.empty())
    std::cerr << "WARNING: " << printable(differs)
              << ": the network sees them turned; hint: bring all to one orientation\n";
  const auto numbers = from_text<std::vector<double>>(found).value_or(spacing);
  return {numbers.at(0), numbers.at(1), numbers.at(2)};
}

/// The targets whose predictions have the same value for all samples: errors vary as the targets.
bool is_constant(const TargetQuality& q) {
  const double squares = q.rmse * q.rmse, variance = squares / (1 - q.r2);
  return std::isfinite(variance) &&
         std::abs(squares - q.bias * q.bias - variance) < 1e-6 * variance;
}

/// Whether all samples have the same prediction.
bool predicts_one(const Evaluation& result) {
  return result.labels ? result.labels->is_constant()
                       : std::all_of(result.targets.begin(), result.targets.end(), is_constant);
}

/// Makes rank 0 warn, once, of validations that repeat and of predictions that do not vary.
void watch_targets(const Comm& world, TrainerOptions& trainer) {
  if (world.rank() != 0) return;
  trainer.after_validation = [losses = std::vector<double>(), alike = 0,
                              warned = false](const Evaluation& result) mutable {
    losses.push_back(result.loss);
    const std::size_t n = losses.size();
    const bool repeats = n > 2 && losses[n - 1] == losses[n - 2] && losses[n - 2] == losses[n - 3];
    alike = predicts_one(result) ? alike + 1 : 0;
    // Classes often begin with the most frequent one.
    const bool is_same = alike >= (result.labels ? 5 : 1);
    if (warned || n < 3 || (!repeats && !is_same)) return;
    warned = true;
    std::cerr << fmt::format(
        "WARNING: {}: the network learns nothing; hint: lower --lr, and look at the range of the "
        "samples' values\n",
        repeats ? fmt::format("three validations in a row have the {} {:g}", title_of(result.kind),
                              result.score)
                : "all samples of the validation have the same prediction");
  };
}

/// Says which targets are predicted worse than by their mean.
void warn_of_bad_targets(const std::optional<Evaluation>& result) {
  if (!result) return;
  for (std::size_t t = 0; t < result->targets.size(); ++t)
    if (result->targets[t].r2 < 0)
      std::cerr << fmt::format(
          "WARNING: predictions of target {} are worse than always giving its mean, R^2 {:.3g}; "
          "hint: train longer, or change --lr\n",
          t, result->targets[t].r2);
}

/// Makes rank 0 warn of classes that no voxel has, in training and in validation.
void watch_classes(const Comm& world, const Options& options, const NetworkSpec& network,
                   const TargetSpec& targets, TrainerOptions& trainer) {
  const auto names =
      class_names(world, options, network, static_cast<std::size_t>(targets.classes));
  const bool tells = world.rank() == 0;
  trainer.without_classes = [=, data = options.get<std::string>("data")](
                                std::int64_t epoch, std::span<const std::size_t> classes) {
    for (const std::size_t c : classes)
      if (tells)
        warn_of_absent_class(
            fmt::format("in {}, split train, that epoch {} trained on", data, epoch + 1), names[c],
            c, "the network cannot learn it");
  };
  trainer.after_validation = [&options, tells, names,
                              warned = false](const Evaluation& result) mutable {
    if (tells && !std::exchange(warned, true))
      warn_of_absent_classes(options, "validation", names, result);
  };
}

/// Names of classes or targets go with the checkpoints, to be used on data that have none.
void keep_names(const Comm& world, const Options& options, const Dataset& data, const Loss& loss,
                const TargetSpec& targets, const std::optional<LoadedCheckpoint>& from,
                TrainerOptions& trainer) {
  const bool of_samples = loss.sample_classes() > 0 && !loss.takes_yes_or_no();
  const std::int64_t classes = of_samples ? loss.sample_classes() : targets.classes;
  std::string names =
      data_names(world, options.get<std::string>("data"), classes > 0 ? "classes" : "targets",
                 static_cast<std::size_t>(classes > 0 ? classes : targets.scalars));
  if (names.empty() && !of_samples) names = data.target_titles();
  if (names.empty() && from && from->state.run.contains(kOutputNames))
    names = from->state.run.at(kOutputNames);
  if (!names.empty()) trainer.run[kOutputNames] = names;
}

void say(const Comm& world, const std::string& text) {
  if (world.rank() == 0) std::cout << printable(text) << std::endl;
}

void warn(const Comm& world, const std::string& text) {
  if (world.rank() == 0) std::cerr << "WARNING: " << printable(text) << std::endl;
}

void warn_of_shared_files(const Comm& world, const Dataset& training, const Dataset& validation) {
  const std::int64_t shared = files_in_common(world, training, validation);
  if (shared == 0) return;
  warn(world,
       fmt::format(
           "{} of the {} files of validation in {} are files of train too, or copies "
           "of them, so that scores do not tell how the network does on samples that it was not "
           "trained on; hint: keep other samples for validation",
           shared, validation.files().size(), validation.directory().string()));
}

/// A run that reaches the end of a decay to 0 goes on without learning anything.
void warn_of_early_end(const Comm& world, const ScheduleOptions& options, const Trainer& trainer) {
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 40;
  const std::int64_t steps = trainer.last_step() > 0 ? trainer.last_step() : kNoLimit;
  const Schedule schedule(options, trainer.steps_per_epoch());
  if (options.peak > 0 && schedule.rate(steps - 1) == 0 && schedule.rate(steps) == 0)
    warn(world, fmt::format("the learning rate reaches 0 before the run ends{}: its last steps "
                            "change nothing; let --schedule {} last longer",
                            steps == kNoLimit ? "" : fmt::format(" after {} steps", steps),
                            to_string(options.kind)));
}

// The summary, of three to five lines: how the run ended, losses and speed if it trained at all,
// and where the results are.
std::string summary(const TrainingResult& result, const TrainerOptions& options) {
  const bool trained = result.samples_per_s > 0;
  std::string text;
  if (!trained && result.end != TrainingEnd::kStopped)
    text = fmt::format("nothing to do: already at epoch {} / step {}", result.epochs, result.steps);
  else
    text = fmt::format("steps {}, epochs {}: ", result.steps, result.epochs);
  if (result.end == TrainingEnd::kTargetReached)
    text += fmt::format("{}validation reached the target {} {:g}", trained ? "" : ", ",
                        title_of(result.last_evaluation->kind), options.target_score);
  else if (result.end == TrainingEnd::kStopped)
    text += "stopped before the end, checkpoint written";
  else if (trained)
    text += "done";
  if (trained)
    text += fmt::format("\nloss            {:g} -> {:g}", result.first_loss, result.last_loss);
  if (result.last_evaluation) {
    text += fmt::format("\nvalidation {:4} ", title_of(result.last_evaluation->kind));
    if (result.first_evaluation->score != result.last_evaluation->score)
      text += fmt::format("{:g} -> ", result.first_evaluation->score);
    text += fmt::format("{:g} ({})", result.last_evaluation->score,
                        counted(result.last_evaluation->samples, "sample"));
  }
  if (trained)
    text += fmt::format("\nspeed           {:g} samples/s, input wait {:g} %", result.samples_per_s,
                        0.1 * std::round(1000 * result.input_wait));
  return text + "\nresults         " + options.out.string();
}

/// Decides whether outputs are computed again where --recompute leaves that open. Throws where the
/// run has no room.
std::optional<RecomputeChoice> fit_memory(NetworkOnMesh& network, const Options& options,
                                          const RankBinding& binding, TrainerOptions& settings) {
  MemorySetting memory{
      .mesh = network.mesh.shape(),
      .batch = pass_batch(settings.global_batch, network.mesh.shape(), settings.accumulate),
      .optimizer_states = std::ssize(states_of(settings)),
      .payload = settings.payload,
      .ranks_per_node = network.mesh.ranks_per_node(),
      .splits = settings.evaluate_every > 0 ? 2 : 1};
  std::optional<RecomputeChoice> recompute;
  if (!memory_use(options)) {
    recompute = choose_recompute(network, memory, binding.ranks_on_node);
    settings.memory = recompute->recomputes ? MemoryUse::kRecomputed : MemoryUse::kShared;
  }
  memory.use = settings.memory;
  require_memory_of_run(network, memory);
  return recompute;
}

struct RunSplits {
  std::unique_ptr<const Dataset> training, validation;  ///< validation: null if there is none
};

/// `learned` are the targets of the training split.
RunSplits open_splits(const Comm& world, const Options& options, const TrainerOptions& settings,
                      const TargetSpec& targets, const TargetSpec& learned) {
  const DataSource data = source_of(options);
  const Shape samples = sample_shape(options, settings.crops);
  RunSplits splits{open_dataset(world, data, "train", samples, learned), nullptr};
  if (settings.evaluate_every > 0)
    splits.validation = open_dataset(world, data, "validation", samples, targets);
  for (const Dataset* const split : {splits.training.get(), splits.validation.get()})
    if (split != nullptr) heed_misplacement(world, options, *split);
  if (splits.validation) warn_of_shared_files(world, *splits.training, *splits.validation);
  return splits;
}

/// Says what a run is about to do. `recompute` is the reason for computing outputs again, or "".
void announce(const Comm& world, const NetworkOnMesh& network, const TrainerOptions& settings,
              const Trainer& trainer, std::int64_t samples, int threads,
              const std::string& recompute) {
  const MeshShape mesh = network.mesh.shape();
  say(world,
      fmt::format("{}, {}, {} per epoch of batch {}; {} as {} x {} ({}), {} each",
                  counted(network.geometry.parameter_count(), "parameter"),
                  counted(samples, "training sample"), counted(trainer.steps_per_epoch(), "step"),
                  settings.global_batch, counted(world.size(), "rank"),
                  counted(mesh.replicas, "replica"), counted(mesh.parts.count(), "part"),
                  to_string(mesh.parts), counted(threads, "thread")));
  if (!recompute.empty()) say(world, recompute);
  if (settings.augment)
    say(world,
        fmt::format("augmentation: {} flips and axis permutations", settings.symmetries.size()));
  if (settings.crops) say(world, describe(*settings.crops, network.model.input()));
  std::string scales;
  for (const ChannelScale& scale : network.model.count_scales())
    scales +=
        fmt::format("{}{:.3g}:{:.3g}", scales.empty() ? "" : ", ", scale.mean, scale.deviation);
  if (!scales.empty())
    say(world, "standardizing log(1+x) by the mean:deviation of each channel, " + scales);
  if (trainer.dropped_samples() > 0)
    say(world,
        fmt::format("dropping the last partial batch of every epoch ({}, different ones each time)",
                    counted(trainer.dropped_samples(), "sample")));
}

/// Says how a run has ended.
void tell_end(const Comm& world, const TrainingResult& result, const TrainerOptions& settings) {
  if (!result.phases.empty()) say(world, result.phases);
  if (result.end != TrainingEnd::kDiverged) say(world, summary(result, settings));
  // A run of one or two validations says little.
  if (result.end == TrainingEnd::kDone && world.rank() == 0 &&
      result.epochs >= 3 * settings.evaluate_every)
    warn_of_bad_targets(result.last_evaluation);
}

}  // namespace

MlperfTraining mlperf_training(const TrainerOptions& trainer, const NetworkSpec& spec,
                               const Options& options) {
  const auto optimizer = make_optimizer(trainer.optimizer);
  const bool normalizes = spec.network->option("batch-norm") != nullptr;
  return {trainer.global_batch,
          normalizes ? spec.settings.get<std::int64_t>("batch-norm") : 0,
          trainer.accumulate,
          options.get<std::string>("init-from"),
          optimizer->title(),
          trainer.optimizer,
          gradient_rules(trainer).clip_norm,
          trainer.schedule};
}

/// Plans the run. A default batch that replicas cannot share is told only where data can be read.
TrainerOptions plan_on_data(const Comm& world, const Options& options,
                            const PlannedNetwork& network) {
  try {
    return plan_training(options, network);
  } catch (const UsageError&) {
    if (!options.is_given("batch"))
      open_dataset(world, source_of(options), "train", sample_shape(options, crop_options(options)),
                   targets_of(*network.loss, network.geometry.tensors().back().shape));
    throw;
  }
}

TrainingResult run_training(const Comm& world, const Options& given, const RankBinding& binding,
                            const BeforeRun& before) {
  MlperfLog mllog =
      before.mllog != nullptr ? std::move(*before.mllog) : begin_mlperf_log(world, given);
  const Options options = with_values_of_data(world, given);
  const auto precision = precision_named(options.get<std::string>("precision"));
  PlannedNetwork planned = planned_network(options, world.size(), precision);
  TrainerOptions trainer_settings = plan_on_data(world, options, planned);
  NetworkOnMesh network(world, std::move(planned), states_of(trainer_settings));
  trainer_settings.started_s = before.started_s;  // opening the data set counts as well
  trainer_settings.staged = before.staged;
  trainer_settings.mllog = &mllog;
  const auto optimizer = make_optimizer(trainer_settings.optimizer);
  std::optional<TraceRequest> trace_request = trace_request_of(options, world.size());
  const auto recompute = fit_memory(network, options, binding, trainer_settings);

  if (before.mllog == nullptr)
    start_mlperf_run(world, options, mlperf_training(trainer_settings, network.spec, options),
                     mllog);
  const TargetSpec targets = targets_of(*network.loss, network.geometry.tensors().back().shape);
  trainer_settings.make_loss = [&network](const Shape& output) {
    return network.spec.make_loss(output);
  };
  const auto [training, validation] = open_splits(world, options, trainer_settings, targets,
                                                  targets_to_learn(network, options, targets));

  mllog.samples(trainer_settings.global_batch, training->size(),
                validation ? validation->size() : 0);
  mllog.optimizer(optimizer->title(), trainer_settings.schedule,
                  options.get<double>("weight-decay"), dropout_of(network.spec));

  check_output(world, options, "out");
  // Before reading anything that another run may still be writing.
  const auto lock = hold_directory(world, trainer_settings.out, "training", "--out");
  trainer_settings.lock = lock.get();
  require_other_use(world, trainer_settings.out, "instance-", "the instances of another run");
  if (lock) remove_partial_files(trainer_settings.out, "");  // left by a killed run
  const std::optional<LoadedCheckpoint> from = load_parameters(network, options);
  if (from && !from->warning.empty()) warn(world, from->warning);
  scale_data(network, options, from, *training, trainer_settings);
  keep_names(world, options, *training, *network.loss, targets, from, trainer_settings);

  const std::array<double, 3> spacing = spacing_in(world, *training);
  if (trainer_settings.augment)
    trainer_settings.symmetries = symmetries_of(network.model.input(), spacing,
                                                options.get<std::string>("augment") == "flips");
  std::unique_ptr<RunTimeline> timeline;
  if (trace_request) {
    // An unwritable one is reported now, not later.
    check_output_file(world, options, "trace");
    timeline = std::make_unique<RunTimeline>(world, network.mesh.shape(), *trace_request);
    trainer_settings.timeline = timeline.get();
  }
  if (targets.classes > 0)
    watch_classes(world, options, network.spec, targets, trainer_settings);
  else
    watch_targets(world, trainer_settings);
  Trainer trainer(network.mesh, network.model, network.geometry, network.parameters, *network.loss,
                  *training, validation.get(), trainer_settings);
  if (from)
    for (const std::string& warning : trainer.resume(from->state)) warn(world, warning);
  const double started_s = MPI_Wtime();
  nlohmann::ordered_json record =
      training_record(options, binding,
                      {network, trainer_settings, training->size(),
                       validation ? validation->size() : 0, trainer.executor().implementations()});
  if (recompute) record["recompute"] = to_json(*recompute);
  if (network.loss->sample_classes() > 0) {
    const LabelNames names = label_names(world, options, network.spec, *network.loss);
    record["labels"] = {{"names", names.labels}, {"classes", names.classes}};
  }
  write_record(world, trainer_settings.out / "run.json", record);
  warn_of_slow_kernels(world, trainer.executor().implementations());
  announce(world, network, trainer_settings, trainer, training->size(), binding.threads,
           recompute ? to_text(*recompute) : "");
  warn_of_early_end(world, trainer_settings.schedule, trainer);
  if (const std::string advice = training->advice(); !advice.empty()) say(world, "note: " + advice);
  if (from)
    say(world, fmt::format("resuming from {} at step {}", from->path.string(), from->state.step));
  TrainingResult result = trainer.run();
  if (before.is_last) StopSignals::ignore_from_now_on();
  record["end"] = end_record(result, MPI_Wtime() - started_s);
  write_record(world, trainer_settings.out / "run.json", record);
  tell_end(world, result, trainer_settings);
  return result;
}

Error divergence_error(const TrainingResult& result) {
  return Error(result.divergence,
               "lower --lr, or lengthen the warm-up; the last checkpoint is from before");
}

}  // namespace halomesh
