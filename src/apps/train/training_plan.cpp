// SPDX-License-Identifier: Apache-2.0
// The plan of a training run: see training_plan.hpp.
#include "src/apps/train/training_plan.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/train/checkpoint_directory.hpp"
#include "runtime/train/checkpoint_file.hpp"
#include "src/apps/launch/version.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/option_text.hpp"
#include "src/apps/options/standardize_option.hpp"
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

void require_scales(const Options& options, const char* option, const std::string& stored) {
  if (stored == "off" || options.get<std::string>(option) != "off") return;
  const bool of_input = std::string(option) == kStandardizeOption;
  throw UsageError(
      fmt::format("--init-from {}: its network {}", options.get<std::string>("init-from"),
                  of_input ? "standardizes its input" : "has scaled targets"),
      fmt::format("add --{}, which then uses the numbers of that checkpoint", option));
}

std::optional<std::filesystem::path> resumed_file(const Options& options) {
  const auto resume = options.get<std::string>("resume");
  if (resume == "never") return {};
  if (resume != "auto") return resume;
  return latest_checkpoint(std::filesystem::path(options.get<std::string>("out")) / "checkpoints");
}

namespace {

/// Checks the checkpoint that --resume or --init-from names, or that --resume auto would find.
void check_first_checkpoint(const Options& options, const PlannedNetwork& network,
                            const TrainerOptions& trainer) {
  const auto first = options.get<std::string>("init-from");
  const auto path = resumed_file(options);
  const bool resumes = path.has_value();
  if (!resumes && first.empty()) return;
  std::optional<CheckpointReader> file;
  try {
    file.emplace(path.value_or(first));
  } catch (const DamagedCheckpoint&) {
    if (resumes && options.get<std::string>("resume") == "auto")
      return;  // the run goes back to the one before
    throw;
  }
  CheckpointTrees trees{"parameters"};
  if (resumes)
    for (const std::string& tree : states_of(trainer))
      if (tree != kGradientResidual || file->has(tree)) trees.push_back(tree);
  file->require_network(network.geometry, trees);
  const TrainingState& recorded = file->state();
  for (const char* const option : {kStandardizeOption, kScaleTargetsOption}) {
    const auto stored = recorded.model.find(option);
    if (!resumes && stored != recorded.model.end() && network.spec.network->option(option))
      require_scales(options, option, stored->second);
  }
  if (!resumes) return;
  TrainingState now;
  now.seed = trainer.seed;
  now.model = trainer.model;
  now.run = trainer.run;
  if (trainer.shuffle == Shuffle::kLocal)
    now.run["shuffle"] = fmt::format("local of {} replicas", network.shape.replicas);
  // These depend on the data.
  for (const char* const option : {kStandardizeOption, kScaleTargetsOption, kValuesOption}) {
    const auto stored = recorded.model.find(option);
    const bool follows_data = option == kValuesOption ? !options.is_given(option)
                                                      : options.get<std::string>(option) == "on";
    if (stored != recorded.model.end() && stored->second != "off" && follows_data)
      now.model[option] = stored->second;
  }
  if (const auto samples = recorded.run.find("training-samples"); samples != recorded.run.end())
    now.run["training-samples"] = samples->second;
  check_resumption(recorded, now, trainer.rules, trainer.allow_changes);
}

}  // namespace

void check_training(const Options& options, std::int64_t ranks) {
  const auto instances = options.get<std::int64_t>("instances");
  if (instances > 1) refuse_shared_files(options, "with --instances");
  const bool rounds = options.get<std::string>("precision") == "bf16";
  const PlannedNetwork network = planned_network(options, ranks / instances,
                                                 rounds ? DataType::kBfloat16 : DataType::kFloat32);
  const TrainerOptions trainer = plan_training(options, network);
  if (instances == 1) check_first_checkpoint(options, network, trainer);
}

}  // namespace halomesh
