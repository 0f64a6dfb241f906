// SPDX-License-Identifier: Apache-2.0
// One training run: see training_run.hpp.
#include "src/apps/train/training_run.hpp"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "joined.hpp"
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
#include "src/apps/options/standardize_option.hpp"
#include "src/apps/options/train_options.hpp"
#include "src/apps/train/memory_choice.hpp"
#include "src/apps/train/network_on_mesh.hpp"
#include "src/apps/train/standardization.hpp"
#include "src/apps/train/target_names.hpp"
#include "src/apps/train/training_crops.hpp"
#include "src/apps/train/training_record.hpp"
#include "src/nn/optimizers/registry.hpp"

namespace halomesh {
namespace {

ScheduleOptions schedule_options(const Options& options) {
  ScheduleOptions schedule;
  schedule.kind = parse_schedule_kind(options.get<std::string>("schedule"));
  schedule.peak = options.get<double>("lr");
  schedule.warmup_epochs = options.get<std::int64_t>("warmup-epochs");
  schedule.warmup_initial = options.get<double>("warmup-initial-lr");
  schedule.decay_epochs = options.get<std::vector<std::int64_t>>("decay-epochs");
  schedule.decay_factors = options.get<std::vector<double>>("decay-factors");
  schedule.linear_epochs = options.get<std::int64_t>("linear-epochs");
  schedule.linear_end_factor = options.get<double>("linear-end-factor");
  schedule.warmup_steps = options.get<std::int64_t>("warmup-steps");
  schedule.milestones = options.get<std::vector<std::int64_t>>("milestones");
  schedule.gamma = options.get<double>("gamma");
  schedule.decay_steps = options.get<std::int64_t>("decay-steps");
  schedule.min_lr = options.get<double>("min-lr");
  schedule.poly_power = options.get<double>("poly-power");
  return schedule;
}

OptimizerOptions optimizer_options(const Options& options) {
  OptimizerOptions optimizer;
  optimizer.name = options.get<std::string>("optimizer");
  optimizer.momentum = options.get<double>("momentum");
  optimizer.weight_decay = options.get<double>("weight-decay");
  const auto betas = options.get<std::vector<double>>("betas");
  if (betas.size() != 2)
    throw UsageError(fmt::format("--betas {} has {} numbers", joined(betas, ","), betas.size()),
                     "give two, such as --betas 0.9,0.999");
  optimizer.betas = {betas[0], betas[1]};
  optimizer.epsilon = options.get<double>("epsilon");
  optimizer.lars_coefficient = options.get<double>("lars-coefficient");
  optimizer.lars_biases = options.get<bool>("lars-biases");
  return optimizer;
}

std::optional<double> clip_norm_option(const Options& options) {
  const auto text = options.get<std::string>("clip-norm");
  if (text == "auto") return {};
  const auto norm = from_text<double>(text);
  if (!norm || *norm < 0 || !fits_fp32(*norm))
    throw UsageError(fmt::format("--clip-norm {}", text),
                     "give auto, 0 or the largest norm of the gradient, e.g. --clip-norm 1");
  return norm;
}

/// What --trace asks for; empty without it. Throws UsageError for steps or ranks that cannot be.
std::optional<TraceRequest> trace_request_of(const Options& options, std::int64_t ranks) {
  TraceRequest request;
  request.file = options.get<std::string>("trace");
  request.steps = parse_trace_steps(options.get<std::string>("trace-steps"));
  if (const auto list = options.get<std::string>("trace-ranks"); list != "auto")
    request.ranks = parse_trace_ranks(list, ranks);
  request.samples_of_step = options.get<std::int64_t>("batch");
  request.program = "halomesh";
  request.version = version();
  if (request.file.empty()) return {};
  return request;
}

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
    network.parameters.initialize(options.get<std::uint64_t>("seed"));
  return {};
}

/// None of a network without such an option.
std::optional<double> dropout_of(const NetworkSpec& spec) {
  if (spec.network->option("dropout") == nullptr) return {};
  return spec.settings.get<double>("dropout");
}

/// Scales the network's input as --standardize says, and records that as a setting of the network.
void standardize_input(NetworkOnMesh& network, const Options& options,
                       const std::optional<LoadedCheckpoint>& from, const Dataset& training,
                       TrainerOptions& trainer) {
  if (network.spec.network->option(kStandardizeOption) == nullptr) return;
  const Comm& world = network.mesh.world();
  const auto wanted = options.get<std::string>(kStandardizeOption);
  const auto first = options.get<std::string>("init-from");
  std::string stored = "off";
  if (from && from->state.model.contains(kStandardizeOption))
    stored = from->state.model.at(kStandardizeOption);
  else if (!from && !first.empty())
    stored = checkpoint_model_options(world, first).get<std::string>(kStandardizeOption);
  if (!from && wanted == "off" && stored != "off")
    throw UsageError(fmt::format("--init-from {}: its network standardizes its input", first),
                     "add --standardize, which then uses the numbers of that checkpoint");
  const std::string numbers = resolved_standardization(world, wanted, stored, training);
  network.model.scale_counts(parse_standardization(numbers, network.model.input().c));
  if (numbers != "off") trainer.model[kStandardizeOption] = numbers;
}

/// Names of classes or targets go with the checkpoints, to be used on data that have none.
void keep_names(const Comm& world, const std::filesystem::path& data, const TargetSpec& targets,
                const std::optional<LoadedCheckpoint>& from, TrainerOptions& trainer) {
  const bool are_classes = targets.classes > 0;
  std::string names =
      data_names(world, data, are_classes ? "classes" : "targets",
                 static_cast<std::size_t>(are_classes ? targets.classes : targets.scalars));
  if (names.empty() && from && from->state.run.contains(kOutputNames))
    names = from->state.run.at(kOutputNames);
  if (!names.empty()) trainer.other[kOutputNames] = names;
}

void say(const Comm& world, const std::string& text) {
  if (world.rank() == 0) std::cout << text << std::endl;
}

void warn(const Comm& world, const std::string& text) {
  if (world.rank() == 0) std::cerr << "WARNING: " << text << std::endl;
}

// Three to five lines: how the run ended, losses and speed if it trained at all, where results are.
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
    text += fmt::format("{:g} ({} samples)", result.last_evaluation->score,
                        result.last_evaluation->samples);
  }
  if (trained)
    text += fmt::format("\nspeed           {:g} samples/s, input wait {:g} %", result.samples_per_s,
                        0.1 * std::round(1000 * result.input_wait));
  return text + "\nresults         " + options.out.string();
}

}  // namespace

TrainerOptions trainer_options(const Options& options) {
  TrainerOptions trainer;
  trainer.global_batch = options.get<std::int64_t>("batch");
  trainer.epochs = options.get<std::int64_t>("epochs");
  trainer.steps = options.get<std::int64_t>("steps");
  trainer.seed = options.get<std::uint64_t>("seed");
  trainer.shuffle =
      options.get<std::string>("shuffle") == "local" ? Shuffle::kLocal : Shuffle::kGlobal;
  trainer.augment = options.get<bool>("augment");
  if (const auto stage = options.get<std::string>("stage-dir"); !stage.empty())
    trainer.stage = {stage,
                     options.get<std::string>("stage-codec") == "deflate" ? StageCodec::kDeflate
                                                                          : StageCodec::kNone,
                     options.get<bool>("keep-stage")};
  trainer.optimizer = optimizer_options(options);
  trainer.clip_norm = clip_norm_option(options);
  trainer.accumulate = options.get<std::int64_t>("accumulate");
  trainer.payload = payload_type(options);
  trainer.skips = parse_gradient_skips(options.get<std::string>("skip-gradients"));
  trainer.schedule = schedule_options(options);
  trainer.reproducible = options.get<bool>("reproducible");
  trainer.memory = memory_use(options).value_or(MemoryUse::kShared);  // auto: see run_training()
  trainer.evaluate_every = options.get<std::int64_t>("evaluate-every");
  trainer.evaluate_first = options.get<bool>("evaluate-first");
  trainer.checkpoint_every = options.get<std::int64_t>("checkpoint-every");
  trainer.keep = options.get<std::int64_t>("keep");
  trainer.wall_limit_s = options.get<double>("wall-limit");
  trainer.out = options.get<std::string>("out");
  trainer.model = model_settings(options);
  trainer.model_rules = network_resume_rules();
  trainer.other = {{"precision", options.get<std::string>("precision")}};
  trainer.allow_changes = options.get<bool>("allow-changes");
  trainer.program = fmt::format("halomesh {}", version());
  return trainer;
}

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
          trainer.clip_norm.value_or(optimizer->default_clip_norm()),
          trainer.schedule};
}

TrainingResult run_training(const Comm& world, const Options& options, const RankBinding& binding,
                            const BeforeRun& before) {
  MlperfLog mllog =
      before.mllog != nullptr ? std::move(*before.mllog) : begin_mlperf_log(world, options);
  check_reproducible_options(options);
  TrainerOptions trainer_settings = trainer_options(options);
  trainer_settings.started_s = before.started_s;  // opening the data set counts as well
  trainer_settings.staged = before.staged;
  trainer_settings.mllog = &mllog;
  const auto optimizer = make_optimizer(trainer_settings.optimizer);
  const Options network_options = padded_network_options(options);
  trainer_settings.model = model_settings(network_options);
  NetworkOnMesh network(world, options.get<PartGrid>("parts"), network_options,
                        precision_named(options.get<std::string>("precision")),
                        states_of(trainer_settings), trainer_settings.reproducible);
  trainer_settings.target_score = target_score(options, network.loss->score());
  const std::int64_t batch =
      pass_batch(trainer_settings.global_batch, network.mesh.shape(), trainer_settings.accumulate);
  const std::optional<TraceRequest> trace_request = trace_request_of(options, world.size());
  trainer_settings.reduction = reduction_named(options.get<std::string>("reduction"));
  std::optional<RecomputeChoice> recompute;
  if (!memory_use(options)) {
    recompute = choose_recompute(network,
                                 {.mesh = network.mesh.shape(),
                                  .batch = batch,
                                  .optimizer_states = std::ssize(states_of(trainer_settings)),
                                  .payload = trainer_settings.payload,
                                  .splits = trainer_settings.evaluate_every > 0 ? 2 : 1},
                                 binding.ranks_on_node);
    trainer_settings.memory = recompute->recomputes ? MemoryUse::kRecomputed : MemoryUse::kShared;
  }

  if (before.mllog == nullptr)
    start_mlperf_run(world, options, mlperf_training(trainer_settings, network.spec, options),
                     mllog);
  const std::filesystem::path data = options.get<std::string>("data");
  const TargetSpec targets = targets_of(*network.loss, network.geometry.tensors().back().shape);
  trainer_settings.crops = crop_options(options, network.spec);
  trainer_settings.make_loss = [&network](const Shape& output) {
    return network.spec.make_loss(output);
  };
  const Shape samples = sample_shape(options, trainer_settings.crops);
  const auto training = open_dataset(world, data, "train", samples, targets);
  std::unique_ptr<const Dataset> validation;
  if (trainer_settings.evaluate_every > 0)
    validation = open_dataset(world, data, "validation", samples, targets);
  for (const Dataset* const split : {training.get(), validation.get()})
    if (split != nullptr) heed_misplacement(world, options, *split);

  mllog.samples(trainer_settings.global_batch, training->size(),
                validation ? validation->size() : 0);
  mllog.optimizer(optimizer->title(), trainer_settings.schedule,
                  options.get<double>("weight-decay"), dropout_of(network.spec));

  // Before reading anything that another run may still be writing.
  const auto lock = hold_directory(world, trainer_settings.out, "training", "--out");
  trainer_settings.lock = lock.get();
  if (lock) remove_partial_files(trainer_settings.out, "");  // left by a killed run
  const std::optional<LoadedCheckpoint> from = load_parameters(network, options);
  if (from && !from->warning.empty()) warn(world, from->warning);
  standardize_input(network, options, from, *training, trainer_settings);
  keep_names(world, data, targets, from, trainer_settings);

  std::unique_ptr<RunTimeline> timeline;
  if (trace_request) {
    check_output_file(world, trace_request->file);  // an unwritable one is reported now, not later
    timeline = std::make_unique<RunTimeline>(world, network.mesh.shape(), *trace_request);
    trainer_settings.timeline = timeline.get();
  }
  Trainer trainer(network.mesh, network.model, network.geometry, network.parameters, *network.loss,
                  *training, validation.get(), trainer_settings);
  if (from)
    for (const std::string& warning : trainer.resume(from->state)) warn(world, warning);
  nlohmann::ordered_json record =
      training_record(options, binding,
                      {network, trainer_settings, training->size(),
                       validation ? validation->size() : 0, trainer.executor().implementations()});
  if (recompute) record["recompute"] = to_json(*recompute);
  write_record(world, trainer_settings.out / "run.json", record);
  warn_of_slow_kernels(world, trainer.executor().implementations());
  say(world,
      fmt::format("{} parameters, {} training samples, {} steps per epoch of batch {}; {} ranks as "
                  "{} replicas x {} parts ({}), {}{}",
                  network.geometry.parameter_count(), training->size(), trainer.steps_per_epoch(),
                  trainer_settings.global_batch, world.size(), network.mesh.shape().replicas,
                  network.mesh.shape().parts.count(), to_string(network.mesh.shape().parts),
                  binding.threads, binding.threads == 1 ? " thread each" : " threads each"));
  if (recompute) say(world, to_text(*recompute));
  if (trainer_settings.augment)
    say(world, fmt::format("augmentation: {} flips and axis permutations",
                           symmetries_of(network.model.input()).size()));
  if (trainer_settings.crops) say(world, describe(*trainer_settings.crops, network.model.input()));
  std::string scales;
  for (const ChannelScale& scale : network.model.count_scales())
    scales +=
        fmt::format("{}{:.3g}:{:.3g}", scales.empty() ? "" : ", ", scale.mean, scale.deviation);
  if (!scales.empty())
    say(world, "standardizing log(1+x) by the mean:deviation of each channel, " + scales);
  if (trainer.dropped_samples() > 0)
    say(world,
        fmt::format(
            "dropping the last partial batch of every epoch ({} samples, different ones each time)",
            trainer.dropped_samples()));
  if (const std::string advice = training->advice(); !advice.empty()) say(world, "note: " + advice);
  if (from)
    say(world, fmt::format("resuming from {} at step {}", from->path.string(), from->state.step));
  TrainingResult result = trainer.run();
  if (before.is_last) StopSignals::ignore_from_now_on();
  record["end"] = end_record(result);
  write_record(world, trainer_settings.out / "run.json", record);
  if (!result.phases.empty()) say(world, result.phases);
  if (result.end != TrainingEnd::kDiverged) say(world, summary(result, trainer_settings));
  return result;
}

Error divergence_error(const TrainingResult& result) {
  return Error(result.divergence,
               "lower --lr, or lengthen the warm-up; the last checkpoint is from before");
}

}  // namespace halomesh
