// The command `train`: joins a network, a data set and a schedule, and reports.
// Knows how a run is set up and recorded; the loop itself is runtime/trainer.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "runtime/binding.hpp"
#include "runtime/metrics.hpp"
#include "runtime/trainer.hpp"
#include "src/apps/commands.hpp"
#include "src/apps/mlperf_options.hpp"
#include "src/apps/model_options.hpp"
#include "src/apps/network_on_mesh.hpp"
#include "src/apps/parallel.hpp"
#include "src/apps/progress_option.hpp"
#include "src/apps/run_record.hpp"
#include "src/apps/train_options.hpp"
#include "src/apps/version.hpp"

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
  return schedule;
}

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
  trainer.sgd.momentum = static_cast<float>(options.get<double>("momentum"));
  trainer.sgd.weight_decay = static_cast<float>(options.get<double>("weight-decay"));
  trainer.schedule = schedule_options(options);
  trainer.target_mae = options.get<double>("target-mae");
  trainer.evaluate_every = options.get<std::int64_t>("evaluate-every");
  trainer.evaluate_first = options.get<bool>("evaluate-first");
  trainer.checkpoint_every = options.get<std::int64_t>("checkpoint-every");
  trainer.keep = options.get<std::int64_t>("keep");
  trainer.wall_limit_s = options.get<double>("wall-limit");
  trainer.out = options.get<std::string>("out");
  trainer.model = model_settings(options);
  trainer.program = cat("halomesh ", version());
  return trainer;
}

// The file to continue from, "" for a fresh start. Rank 0 looks, so that all ranks agree.
std::string checkpoint_to_resume(const Comm& world, const Options& options) {
  auto resume = options.get<std::string>("resume");
  if (resume == "never") return {};
  if (resume != "auto") return resume;
  std::string found;
  if (world.rank() == 0)
    if (const auto latest = latest_checkpoint(
            std::filesystem::path(options.get<std::string>("out")) / "checkpoints"))
      found = latest->string();
  return world.broadcast(found, 0);
}

void say(const Comm& world, const std::string& text) {
  if (world.rank() == 0) std::cout << text << std::endl;
}

std::string summary(const TrainingResult& result, const TrainerOptions& options) {
  std::string text = cat("steps ", result.steps, ", epochs ", result.epochs, ": ");
  text += result.end == TrainingEnd::kTargetReached
              ? cat("validation reached the target MAE ", options.target_mae)
          : result.end == TrainingEnd::kStopped ? "stopped before the end, checkpoint written"
                                                : "done";
  text += cat("\nloss            ", result.first_loss, " -> ", result.last_loss);
  if (result.last_evaluation) {
    text += "\nvalidation MAE  ";
    if (result.first_evaluation->mae != result.last_evaluation->mae)
      text += cat(result.first_evaluation->mae, " -> ");
    text += cat(result.last_evaluation->mae, " (", result.last_evaluation->samples, " samples)");
  }
  return text + cat("\nspeed           ", result.samples_per_s, " samples/s, input wait ",
                    0.1 * std::round(1000 * result.input_wait), " %\nresults         ",
                    options.out.string());
}

int train(const Comm& world, const Options& options) {
  const double started_s = MPI_Wtime();
  MlperfLog mllog = begin_mlperf_log(world, options);
  TrainerOptions trainer_settings = trainer_options(options);
  trainer_settings.started_s = started_s;  // opening the data set counts, too
  trainer_settings.mllog = &mllog;
  validate(trainer_settings.sgd);
  RankBinding binding = bind_threads(world);
  const auto progress_thread = start_progress_thread(world, options, binding);
  NetworkOnMesh network(world, options.get<PartGrid>("parts"), options,
                        precision_named(options.get<std::string>("precision")));
  local_batch(trainer_settings.global_batch, network.mesh.shape());
  trainer_settings.reduction = reduction_named(options.get<std::string>("reduction"), network.mesh);

  mllog.submission(mlperf_submission(world, options));
  mllog.run_start();
  const std::filesystem::path data = options.get<std::string>("data");
  const auto targets = options.get<std::int64_t>("targets");
  const auto training = Dataset::open(world, data, "train", network.model.input(), targets);
  std::unique_ptr<const Dataset> validation;
  if (trainer_settings.evaluate_every > 0)
    validation = Dataset::open(world, data, "validation", network.model.input(), targets);

  mllog.samples(trainer_settings.global_batch, training->size(),
                validation ? validation->size() : 0);
  mllog.optimizer(trainer_settings.schedule, options.get<double>("weight-decay"),
                  options.get<double>("dropout"));

  const std::string from = checkpoint_to_resume(world, options);
  const auto init_from = options.get<std::string>("init-from");
  std::optional<TrainingState> state;
  if (!from.empty())
    state = load_checkpoint(network.mesh, network.geometry, network.parameters, from);
  else if (!init_from.empty())
    load_checkpoint(network.mesh, network.geometry, network.parameters, init_from,
                    LoadWhat::kParametersOnly);
  else
    network.parameters.initialize(trainer_settings.seed);

  prepare_run_directory(world, trainer_settings.out);
  std::unique_ptr<Trace> trace;
  if (const auto file = options.get<std::string>("trace"); !file.empty()) {
    trace = std::make_unique<Trace>(1 << 20);
    write_trace(world, file, *trace);  // that it cannot be written is found out now, not at the end
  }
  Trainer trainer(network.mesh, network.model, network.geometry, network.parameters, *training,
                  validation.get(), trainer_settings, trace.get());
  if (state) trainer.resume(*state);
  record_run(world, trainer_settings.out, options, network.mesh, trainer_settings.reduction,
             binding, trainer.executor().implementations());
  warn_of_slow_kernels(world, trainer.executor().implementations());
  say(world, cat(network.geometry.parameter_count(), " parameters, ", training->size(),
                 " training samples, ", trainer.steps_per_epoch(), " steps an epoch of batch ",
                 trainer_settings.global_batch, "; ", world.size(), " ranks as ",
                 network.mesh.shape().replicas, " replicas x ", network.mesh.shape().parts.count(),
                 " parts (", to_string(network.mesh.shape().parts), "), ", binding.threads,
                 " threads each"));
  if (trainer_settings.augment)
    say(world, cat("training samples are turned by ", symmetries_of(training->shape()).size(),
                   " symmetries: flips and permutations of equal axes"));
  if (trainer.dropped_samples() > 0)
    say(world, cat("each epoch drops ", trainer.dropped_samples(),
                   " samples that do not fill a batch, others each time"));
  if (const std::string advice = training->advice(); !advice.empty()) say(world, "note: " + advice);
  if (state) say(world, cat("going on from ", from, " at step ", state->step));
  const TrainingResult result = trainer.run();
  if (trace) write_trace(world, options.get<std::string>("trace"), *trace);
  say(world, summary(result, trainer_settings));
  return result.end == TrainingEnd::kStopped ? kExitStopped : kExitDone;
}

}  // namespace

int run_train(int argc, char** argv) {
  Options options("train --data DIR --out DIR [options]",
                  "Trains a network; run under mpirun, srun or mpiexec. Given again, the same "
                  "command goes on from the last checkpoint.");
  add_training_options(options);
  add_model_options(options);
  return run_parallel(
      argc, argv, options, [&](const Comm& world) { return train(world, options); }, thread_level);
}

}  // namespace halomesh
