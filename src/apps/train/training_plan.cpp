// SPDX-License-Identifier: Apache-2.0
// The plan of a training run: see training_plan.hpp.
#include "src/apps/train/training_plan.hpp"

#include <string>
#include <vector>

#include "src/apps/launch/version.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/train_options.hpp"
#include "src/apps/train/training_crops.hpp"

namespace halomesh {

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

/// The settings that checkpoints record in /run. They hold the seed elsewhere.
Settings run_settings(const Options& options, const TrainerOptions& trainer) {
  Settings settings = options.recorded_settings();
  settings.erase("seed");
  settings.erase("clip-norm");
  if (const double clip = gradient_rules(trainer).clip_norm; clip > 0)
    settings["clip-norm"] = fmt::format("{}", clip);
  return settings;
}

/// The trainer's options without the network's part and values known only at run time.
TrainerOptions trainer_options(const Options& options) {
  auto trainer = options.read<TrainerOptions>();
  trainer.optimizer = options.read<OptimizerOptions>();
  trainer.schedule = options.read<ScheduleOptions>();
  if (const auto stage = options.get<std::string>("stage-dir"); !stage.empty())
    trainer.stage = options.read(StageOptions{.directory = stage});
  trainer.crops = crop_options(options);
  trainer.payload = payload_type(options);
  trainer.memory = memory_use(options).value_or(MemoryUse::kShared);  // auto: see run_training()
  trainer.reduction = reduction_named(options.get<std::string>("reduction"));
  trainer.out = options.get<std::string>("out");
  trainer.run = run_settings(options, trainer);
  trainer.rules = resume_rules(options);
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
  trainer.model = model_settings(padded_network_options(options));
  trainer.target_score = target_score(options, network.loss->score());
  static_cast<void>(Schedule(trainer.schedule, 1));  // refuses impossible ones
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
