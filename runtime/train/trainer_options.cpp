// SPDX-License-Identifier: Apache-2.0
// The settings of a training run: see trainer_options.hpp.
#include "runtime/train/trainer_options.hpp"

#include <algorithm>

#include "error.hpp"
#include "joined.hpp"
#include "src/nn/optimizers/registry.hpp"

namespace halomesh {

SampleOrder sample_order(const TrainerOptions& options, const MeshShape& mesh,
                         const Dataset& dataset, std::int64_t passes) {
  return {options.shuffle, options.seed, dataset.size(), mesh.replicas,
          pass_batch(options.global_batch, mesh, passes)};
}

std::int64_t pass_batch(std::int64_t global_batch, const MeshShape& mesh, std::int64_t passes) {
  const std::int64_t local = local_batch(global_batch, mesh);
  if (passes < 1 || local % passes != 0)
    throw UsageError(fmt::format("--accumulate {} does not divide the {} samples of a replica in a "
                                 "step",
                                 passes, local),
                     fmt::format("use a smaller --accumulate, or --batch {} or a multiple of it",
                                 mesh.replicas * std::max<std::int64_t>(passes, 1)));
  return local / passes;
}

double clip_norm_of(const TrainerOptions& options, const Optimizer& optimizer) {
  return options.clip_norm.value_or(optimizer.default_clip_norm());
}

std::vector<std::string> states_of(const TrainerOptions& options) {
  std::vector<std::string> states = make_optimizer(options.optimizer)->states();
  if (options.payload == DataType::kBfloat16) states.emplace_back(kGradientResidual);
  return states;
}

GradientRules gradient_rules(const TrainerOptions& options) {
  return {options.accumulate, clip_norm_of(options, *make_optimizer(options.optimizer)),
          options.payload, options.reproducible, options.memory};
}

Settings recorded_settings(const TrainerOptions& options, const SampleOrder& order) {
  Settings settings = options.other;
  settings["batch"] = fmt::format("{}", options.global_batch);
  settings["shuffle"] = options.shuffle == Shuffle::kLocal
                            ? fmt::format("local of {} replicas", order.replicas)
                            : "global";
  settings["augment"] = options.augment ? "on" : "off";
  if (options.crops && options.crops->random) {
    settings["patches"] = "random";
    settings["foreground"] = fmt::format("{}", options.crops->foreground);
  }
  if (options.crops && options.crops->padding)
    settings["pad"] = fmt::format("{}", *options.crops->padding);
  settings["training-samples"] = fmt::format("{}", order.samples);
  settings["optimizer"] = options.optimizer.name;
  const auto optimizer = make_optimizer(options.optimizer);
  settings.merge(optimizer->settings());
  if (const double clip = clip_norm_of(options, *optimizer); clip > 0)
    settings["clip-norm"] = fmt::format("{}", clip);
  if (options.payload != DataType::kFloat32)
    settings["gradient-payload"] = name_of(options.payload);
  if (options.reproducible) settings["reproducible"] = "on";
  if (!options.skips.empty()) settings["skip-gradients"] = to_text(options.skips);
  const ScheduleOptions& schedule = options.schedule;
  settings["lr"] = fmt::format("{}", schedule.peak);
  settings["schedule"] = to_string(schedule.kind);
  settings["warmup-epochs"] = fmt::format("{}", schedule.warmup_epochs);
  if (schedule.warmup_epochs > 0)
    settings["warmup-initial-lr"] = fmt::format("{}", schedule.warmup_initial);
  if (schedule.kind == ScheduleKind::kStep) {
    settings["decay-epochs"] = joined(schedule.decay_epochs, ",");
    settings["decay-factors"] = joined(schedule.decay_factors, ",");
  }
  if (schedule.kind == ScheduleKind::kLinear) {
    settings["linear-epochs"] = fmt::format("{}", schedule.linear_epochs);
    settings["linear-end-factor"] = fmt::format("{}", schedule.linear_end_factor);
  }
  if (schedule.warmup_steps > 0)
    settings["warmup-steps"] = fmt::format("{}", schedule.warmup_steps);
  if (schedule.kind == ScheduleKind::kMultistep) {
    settings["milestones"] = joined(schedule.milestones, ",");
    settings["gamma"] = fmt::format("{}", schedule.gamma);
  }
  if (schedule.kind == ScheduleKind::kCosine || schedule.kind == ScheduleKind::kPoly) {
    settings["decay-steps"] = fmt::format("{}", schedule.decay_steps);
    settings["min-lr"] = fmt::format("{}", schedule.min_lr);
  }
  if (schedule.kind == ScheduleKind::kPoly)
    settings["poly-power"] = fmt::format("{}", schedule.poly_power);
  return settings;
}

}  // namespace halomesh
