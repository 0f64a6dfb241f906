// SPDX-License-Identifier: Apache-2.0
// What may change when resuming: each setting is recorded and compared by its rule.
#include "runtime/train/resume_rules.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>

#include "runtime/train/trainer.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

/// Options with a schedule of this kind in which every setting counts.
TrainerOptions options_with(ScheduleKind kind) {
  TrainerOptions options;
  options.global_batch = 8;
  options.optimizer = {"sgd", 0.9, 1e-4};
  options.schedule = {kind, 0.01, 2,     0.001, {16, 32}, {0.25, 0.125}, 5,
                      0.05, 0,    {800}, 0.5,   50,       0.001,         0.9};
  if (kind == ScheduleKind::kMultistep) options.schedule.warmup_steps = 10;
  options.other = {{"precision", "fp32"}};
  return options;
}

Settings settings_of(const TrainerOptions& options, std::int64_t samples = 100) {
  SampleOrder order;
  order.samples = samples;
  order.replicas = 2;
  Settings settings = recorded_settings(options, order);
  settings.insert({{"seed", "1"},
                   {"model", "cosmoflow"},
                   {"input", "32x32x32x4"},
                   {"fc", "128,64"},
                   {"dropout", "0.5"}});
  return settings;
}

/// As a network with two options of its own would have them.
constexpr auto kNetworkRules = std::to_array<ResumeRule>({{"model", ChangeRule::kNever},
                                                          {"input", ChangeRule::kNever},
                                                          {"fc", ChangeRule::kNever},
                                                          {"dropout", ChangeRule::kAllowed},
                                                          {"kernels", ChangeRule::kFree}});

SettingChanges changes_of(const Settings& before, const Settings& after) {
  return compare_settings(before, after, kNetworkRules);
}

struct Change {
  std::string message;
  std::function<void(TrainerOptions&)> make;
  ScheduleKind kind = ScheduleKind::kConstant;
  std::string optimizer = "sgd";
};

}  // namespace

TEST_CASE("each setting of the trainer is recorded, and its change is detected") {
  using Options = TrainerOptions;
  const auto constant = ScheduleKind::kConstant, step = ScheduleKind::kStep,
             linear = ScheduleKind::kLinear, multistep = ScheduleKind::kMultistep,
             poly = ScheduleKind::kPoly;
  const std::vector<Change> changes = {
      {"batch 8 -> 4", [](Options& o) { o.global_batch = 4; }},
      {"shuffle global -> local of 2 replicas", [](Options& o) { o.shuffle = Shuffle::kLocal; }},
      {"augment off -> on", [](Options& o) { o.augment = true; }},
      {"optimizer sgd -> nesterov", [](Options& o) { o.optimizer.name = "nesterov"; }},
      {"momentum 0.9 -> 0.8", [](Options& o) { o.optimizer.momentum = 0.8; }},
      {"weight-decay 0.0001 -> 0", [](Options& o) { o.optimizer.weight_decay = 0; }},
      {"clip-norm (none) -> 2", [](Options& o) { o.clip_norm = 2; }},
      {"gradient-payload (none) -> bf16", [](Options& o) { o.payload = DataType::kBfloat16; }},
      {"skip-gradients (none) -> 2@8",
       [](Options& o) {
         o.skips = {{2, 8}};
       }},
      {"reproducible (none) -> on", [](Options& o) { o.reproducible = true; }},
      {"betas 0.9,0.999 -> 0.8,0.999", [](Options& o) { o.optimizer.betas[0] = 0.8; }, constant,
       "adamw"},
      {"epsilon 1e-06 -> 1e-08", [](Options& o) { o.optimizer.epsilon = 1e-8; }, constant, "lamb"},
      {"lars-coefficient 0.001 -> 0.002", [](Options& o) { o.optimizer.lars_coefficient = 0.002; },
       constant, "lars"},
      {"lars-biases off -> on", [](Options& o) { o.optimizer.lars_biases = true; }, constant,
       "lars"},
      {"warmup-steps 10 -> 20", [](Options& o) { o.schedule.warmup_steps = 20; }, multistep},
      {"milestones 800 -> 900", [](Options& o) { o.schedule.milestones = {900}; }, multistep},
      {"gamma 0.5 -> 0.1", [](Options& o) { o.schedule.gamma = 0.1; }, multistep},
      {"decay-steps 50 -> 60", [](Options& o) { o.schedule.decay_steps = 60; }, poly},
      {"min-lr 0.001 -> 0", [](Options& o) { o.schedule.min_lr = 0; }, poly},
      {"poly-power 0.9 -> 2", [](Options& o) { o.schedule.poly_power = 2; }, poly},
      {"lr 0.01 -> 0.02", [](Options& o) { o.schedule.peak = 0.02; }},
      {"schedule constant -> linear", [=](Options& o) { o.schedule.kind = linear; }},
      {"warmup-epochs 2 -> 3", [](Options& o) { o.schedule.warmup_epochs = 3; }},
      {"warmup-initial-lr 0.001 -> 0", [](Options& o) { o.schedule.warmup_initial = 0; }},
      {"decay-epochs 16,32 -> 16,33",
       [](Options& o) {
         o.schedule.decay_epochs = {16, 33};
       },
       step},
      {"decay-factors 0.25,0.125 -> 0.25,0.1",
       [](Options& o) {
         o.schedule.decay_factors = {0.25, 0.1};
       },
       step},
      {"linear-epochs 5 -> 6", [](Options& o) { o.schedule.linear_epochs = 6; }, linear},
      {"linear-end-factor 0.05 -> 0.01", [](Options& o) { o.schedule.linear_end_factor = 0.01; },
       linear},
      {"patches (none) -> random", [](Options& o) { o.crops = CropOptions{.random = true}; }},
      {"foreground (none) -> 0.25",
       [](Options& o) { o.crops = CropOptions{.random = true, .foreground = 0.25}; }},
      {"pad (none) -> -2.5", [](Options& o) { o.crops = CropOptions{.padding = -2.5F}; }},
      {"precision fp32 -> bf16", [](Options& o) { o.other["precision"] = "bf16"; }}};
  std::map<std::string, ChangeRule> met;
  for (const Change& change : changes) {
    CAPTURE(change.message);
    TrainerOptions before = options_with(change.kind);
    before.optimizer.name = change.optimizer;
    TrainerOptions after = before;
    change.make(after);
    CHECK(changes_of(settings_of(before), settings_of(before)).allowed.empty());
    const SettingChanges found = changes_of(settings_of(before), settings_of(after));
    REQUIRE(found.refused.size() + found.allowed.size() > 0);
    const bool refused = !found.refused.empty();
    const std::vector<std::string>& messages = refused ? found.refused : found.allowed;
    CHECK(std::find(messages.begin(), messages.end(), change.message) != messages.end());
    CHECK(found.unrecorded.empty());
    met[change.message.substr(0, change.message.find(' '))] =
        refused ? ChangeRule::kNever : ChangeRule::kAllowed;
  }
  // The rest come from the network's options, the seed and the data.
  for (const char* name : {"model", "input", "fc", "dropout", "seed", "training-samples"}) {
    CAPTURE(name);
    const Settings before = settings_of(options_with(step));
    Settings after = before;
    REQUIRE(after.contains(name));
    after[name] = "1x1";
    const SettingChanges found = changes_of(before, after);
    REQUIRE(found.refused.size() + found.allowed.size() == 1);
    met[name] = found.refused.empty() ? ChangeRule::kAllowed : ChangeRule::kNever;
  }
  std::size_t rows = 0;
  std::vector<ResumeRule> rules(kNetworkRules.begin(), kNetworkRules.end());
  rules.insert(rules.end(), resume_rules().begin(), resume_rules().end());
  for (const ResumeRule& rule : rules) {
    CAPTURE(rule.name);
    const auto found = met.find(std::string(rule.name));
    REQUIRE((found != met.end()) == (rule.rule != ChangeRule::kFree));
    if (found == met.end()) continue;
    CHECK(found->second == rule.rule);
    ++rows;
  }
  CHECK(rows == met.size());
  CHECK(rows > 20);
}

TEST_CASE("settings are compared by value, and unrecorded ones are reported separately") {
  const Settings now = settings_of(options_with(ScheduleKind::kStep));
  Settings same = now;
  same["dropout"] = "0.50";
  same["fc"] = "128, 64";
  same["input"] = "32x32x32x04";
  SettingChanges changes = changes_of(same, now);
  CHECK(changes.refused.empty());
  CHECK(changes.allowed.empty());
  same["fc"] = "128,32";
  CHECK(changes_of(same, now).refused == std::vector<std::string>{"fc 128,32 -> 128,64"});

  Settings older = now;
  for (const char* name : {"lr", "schedule", "warmup-epochs", "warmup-initial-lr", "decay-epochs",
                           "decay-factors", "momentum", "weight-decay", "precision"})
    CHECK(older.erase(name) == 1);
  changes = changes_of(older, now);
  CHECK(changes.refused.empty());
  CHECK(changes.allowed.empty());
  CHECK(changes.unrecorded.size() == 9);
}

TEST_CASE("the rules are printed, each name once") {
  const std::string text = describe_resume_rules(kNetworkRules);
  for (const ResumeRule& rule : resume_rules()) CHECK(contains(text, std::string(rule.name)));
  for (const ResumeRule& rule : kNetworkRules) CHECK(contains(text, std::string(rule.name)));
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
    CHECK(text.find('\n', begin) - begin <= 84);
}

}  // namespace halomesh
