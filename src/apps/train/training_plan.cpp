// SPDX-License-Identifier: Apache-2.0
// The plan of a training run: see training_plan.hpp.
#include "src/apps/train/training_plan.hpp"

#include <string>
#include <vector>

#include "counted.hpp"
#include "joined.hpp"
#include "src/apps/launch/version.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/option_text.hpp"
#include "src/apps/options/train_options.hpp"
#include "src/apps/train/training_crops.hpp"
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
    throw UsageError(
        fmt::format("--betas {} has {}", joined(betas, ","), counted(std::ssize(betas), "number")),
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

}  // namespace

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

namespace {

/// The trainer's options without the network's part and values known only at run time.
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
  trainer.reduction = reduction_named(options.get<std::string>("reduction"));
  trainer.crops = crop_options(options);
  trainer.evaluate_every = options.get<std::int64_t>("evaluate-every");
  trainer.evaluate_first = options.get<bool>("evaluate-first");
  trainer.checkpoint_every = options.get<std::int64_t>("checkpoint-every");
  trainer.keep = options.get<std::int64_t>("keep");
  trainer.wall_limit_s = options.get<double>("wall-limit");
  trainer.out = options.get<std::string>("out");
  trainer.model_rules = network_resume_rules();
  trainer.other = {{"precision", options.get<std::string>("precision")}};
  trainer.allow_changes = options.get<bool>("allow-changes");
  trainer.program = fmt::format("halomesh {}", version());
  return trainer;
}

}  // namespace

PlannedNetwork planned_network(const Options& options, std::int64_t ranks, DataType precision) {
  return {ranks, options.get<PartGrid>("parts"), padded_network_options(options), precision,
          options.get<bool>("reproducible")};
}

TrainerOptions plan_training(const Options& options, const PlannedNetwork& network) {
  TrainerOptions trainer = trainer_options(options);
  const auto optimizer = make_optimizer(trainer.optimizer);
  trainer.model = model_settings(padded_network_options(options));
  trainer.target_score = target_score(options, network.loss->score());
  Schedule(trainer.schedule, 1);
  const std::int64_t batch = pass_batch(trainer.global_batch, network.shape, trainer.accumulate);
  samples_together(network.model, batch, trainer.accumulate, network.shape.replicas);
  check_rules(gradient_rules(trainer), *network.loss, network.model, network.geometry,
              batch * network.shape.replicas);
  if (!trainer.skips.empty()) first_trained_layer(network.geometry, trainer.skips.back().layers);
  trace_request_of(options, network.shape.ranks());
  return trainer;
}

void refuse_shared_files(const Options& options, const std::string& why) {
  const auto refuse = [&](const std::string& option, const std::string& hint) {
    throw UsageError(
        fmt::format("--{} {} cannot be used {}", option, options.get<std::string>(option), why),
        hint);
  };
  if (!options.get<std::string>("trace").empty())
    refuse("trace", "trace one training run alone, which writes the file");
  const auto resume = options.get<std::string>("resume");
  if (resume != "auto" && resume != "never")
    refuse("resume", "leave it out: each run resumes from its own latest checkpoint");
}

void check_training(const Options& options, std::int64_t ranks) {
  const auto instances = options.get<std::int64_t>("instances");
  if (instances > 1) refuse_shared_files(options, "with --instances");
  const bool rounds = options.get<std::string>("precision") == "bf16";
  plan_training(options, planned_network(options, ranks / instances,
                                         rounds ? DataType::kBfloat16 : DataType::kFloat32));
}

}  // namespace halomesh
