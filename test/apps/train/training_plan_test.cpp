// SPDX-License-Identifier: Apache-2.0
// The plan of a training run: what its options set, and what checkpoints record of them.
#include "src/apps/train/training_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "src/apps/options/model_options.hpp"
#include "src/apps/options/train_options.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

using Arguments = std::vector<std::string>;

TrainerOptions planned(Arguments arguments, const Arguments& more = {}) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  arguments.insert(arguments.end(), {"--data", "d", "--out", "o"});
  if (std::find(arguments.begin(), arguments.end(), "--input") == arguments.end())
    arguments.insert(arguments.end(), {"--input", "32x32x32x4", "--conv-layers", "4"});
  if (std::find(arguments.begin(), arguments.end(), "--batch") == arguments.end())
    arguments.insert(arguments.end(), {"--batch", "8"});
  Options options = all_run_options();
  options.parse(arguments);
  return plan_training(options, planned_network(options, 2, DataType::kFloat32));
}

/// The settings that a checkpoint holds, with those that it does not store in /run.
Settings settings_of(const TrainerOptions& options) {
  Settings settings = options.run;
  settings.insert(options.model.begin(), options.model.end());
  settings["seed"] = fmt::format("{}", options.seed);
  return settings;
}

struct Change {
  std::string message;
  Arguments both, before, after;
};

const Arguments kLinear{"--schedule", "linear", "--linear-epochs", "5"},
    kMultistep{"--schedule", "multistep", "--milestones", "800"},
    kPoly{"--schedule", "poly", "--decay-steps", "50"},
    kCrops{"--model", "unet3d", "--input", "16x16x16x1", "--levels", "3"};

/// One change of each setting that a curve depends on.
const std::vector<Change> kChanges{
    {"batch 8 -> 4", {}, {"--batch", "8"}, {"--batch", "4"}},
    {"shuffle global -> local", {}, {}, {"--shuffle", "local"}},
    {"seed 0 -> 1", {}, {}, {"--seed", "1"}},
    {"augment off -> on", {}, {}, {"--augment", "on"}},
    {"precision fp32 -> bf16", {}, {}, {"--precision", "bf16"}},
    {"optimizer sgd -> nesterov", {}, {}, {"--optimizer", "nesterov"}},
    {"momentum 0.9 -> 0.8", {}, {}, {"--momentum", "0.8"}},
    {"weight-decay 0 -> 0.0001", {}, {}, {"--weight-decay", "1e-4"}},
    {"weight-decay 0 -> 3.0517578e-05", {}, {}, {"--weight-decay", "3.0517578125e-05"}},
    {"clip-norm (none) -> 2", {}, {}, {"--clip-norm", "2"}},
    {"clip-norm 1 -> (none)", {"--optimizer", "lamb"}, {}, {"--clip-norm", "0"}},
    {"gradient-payload (none) -> bf16", {}, {}, {"--gradient-payload", "bf16"}},
    {"skip-gradients (none) -> 2@8", {}, {}, {"--skip-gradients", "2@8"}},
    {"reproducible (none) -> on", {}, {}, {"--reproducible"}},
    {"betas 0.9,0.999 -> 0.8,0.999", {"--optimizer", "adamw"}, {}, {"--betas", "0.80,0.999"}},
    {"epsilon 1e-06 -> 1e-08", {"--optimizer", "lamb"}, {}, {"--epsilon", "0.00000001"}},
    {"lars-coefficient 0.001 -> 0.002",
     {"--optimizer", "lars"},
     {},
     {"--lars-coefficient", "0.002"}},
    {"lars-biases off -> on", {"--optimizer", "lars"}, {}, {"--lars-biases", "on"}},
    {"lr 0.01 -> 0.02", {}, {"--lr", "1e-2"}, {"--lr", "0.02"}},
    {"schedule constant -> linear", {}, {}, kLinear},
    {"warmup-epochs 0 -> 3", {}, {}, {"--warmup-epochs", "3"}},
    {"warmup-initial-lr 0.001 -> 0", {"--warmup-epochs", "3"}, {}, {"--warmup-initial-lr", "0"}},
    {"warmup-steps (none) -> 20", {}, {"--warmup-steps", "0"}, {"--warmup-steps", "20"}},
    {"milestones 800 -> 800,900",
     {},
     kMultistep,
     {"--schedule", "multistep", "--milestones", "800,900"}},
    {"gamma 0.1 -> 0.5", kMultistep, {}, {"--gamma", "0.5"}},
    {"decay-steps 50 -> 60", {}, kPoly, {"--schedule", "poly", "--decay-steps", "60"}},
    {"min-lr 0 -> 0.0001", kPoly, {}, {"--min-lr", "0.0001"}},
    {"poly-power 1 -> 0.9", kPoly, {}, {"--poly-power", "0.9"}},
    {"decay-epochs 16,32 -> 16,33",
     {"--schedule", "step", "--decay-factors", "0.25,0.1"},
     {"--decay-epochs", "16,32"},
     {"--decay-epochs", "16,33"}},
    {"decay-factors 0.25 -> 0.2",
     {"--schedule", "step", "--decay-epochs", "16"},
     {"--decay-factors", "0.25"},
     {"--decay-factors", "0.2"}},
    {"linear-epochs 5 -> 6", {}, kLinear, {"--schedule", "linear", "--linear-epochs", "6"}},
    {"linear-end-factor 0.01 -> 0.05", kLinear, {}, {"--linear-end-factor", "0.05"}},
    {"patches (none) -> random", kCrops, {}, {"--patches", "random"}},
    {"foreground (none) -> 0.4", kCrops, {}, {"--patches", "random"}},
    {"pad (none) -> 0", kCrops, {}, {"--pad", "0"}},
    {"pad (none) -> -2.1", kCrops, {}, {"--pad", "-2.1"}},
    {"split (none) -> 0.2", {}, {}, {"--split", "0.2"}},
};

}  // namespace

TEST_CASE("each setting that a curve depends on is recorded, and its change is detected") {
  std::map<std::string, SettingRole> met;
  for (const Change& change : kChanges) {
    CAPTURE(change.message);
    const TrainerOptions before = planned(change.both, change.before),
                         after = planned(change.both, change.after);
    CHECK(compare_settings(settings_of(before), settings_of(before), before.rules).allowed.empty());
    const SettingChanges found =
        compare_settings(settings_of(before), settings_of(after), before.rules);
    const bool refused = std::find(found.refused.begin(), found.refused.end(), change.message) !=
                         found.refused.end();
    CHECK((refused || std::find(found.allowed.begin(), found.allowed.end(), change.message) !=
                          found.allowed.end()));
    CHECK(found.unrecorded.empty());
    met[change.message.substr(0, change.message.find(' '))] =
        refused ? SettingRole::kNetwork : SettingRole::kTraining;
  }
  // Those of a network and the number of samples have tests of their own.
  for (const ResumeRule& rule : network_resume_rules())
    CHECK(met.emplace(rule.name, rule.role).second);
  met["training-samples"] = SettingRole::kNetwork;
  std::size_t rows = 0;
  for (const ResumeRule& rule : planned({}).rules) {
    CAPTURE(rule.name);
    const auto found = met.find(rule.name);
    const bool counts = rule.role == SettingRole::kNetwork || rule.role == SettingRole::kTraining;
    REQUIRE((found != met.end() || !counts));
    if (found == met.end()) continue;
    CHECK(found->second == rule.role);
    ++rows;
  }
  CHECK(rows == met.size());
  CHECK(rows > 40);
}

TEST_CASE("checkpoints record what counts beside the other options, and nothing else") {
  CHECK(planned({"--lr", "1e-2", "--keep", "3", "--parts", "2x1x1"}).run ==
        Settings{{"augment", "off"},
                 {"batch", "8"},
                 {"lr", "0.01"},
                 {"momentum", "0.9"},
                 {"optimizer", "sgd"},
                 {"precision", "fp32"},
                 {"schedule", "constant"},
                 {"shuffle", "global"},
                 {"warmup-epochs", "0"},
                 {"weight-decay", "0"}});
}

TEST_CASE("options reach the fields of the trainer's settings") {
  const TrainerOptions o = planned({"--optimizer",
                                    "lars",
                                    "--lars-coefficient",
                                    "0.002",
                                    "--lars-biases",
                                    "on",
                                    "--schedule",
                                    "poly",
                                    "--decay-steps",
                                    "7",
                                    "--poly-power",
                                    "0.9",
                                    "--shuffle",
                                    "local",
                                    "--stage-dir",
                                    "s",
                                    "--stage-codec",
                                    "deflate",
                                    "--keep-stage",
                                    "--seed",
                                    "18446744073709551615",
                                    "--skip-gradients",
                                    "1@2",
                                    "--clip-norm",
                                    "3",
                                    "--accumulate",
                                    "2",
                                    "--wall-limit",
                                    "60",
                                    "--keep",
                                    "5",
                                    "--gradient-payload",
                                    "bf16",
                                    "--evaluate-every",
                                    "0"});
  CHECK(o.optimizer.name == "lars");
  CHECK(o.optimizer.lars_coefficient == 0.002);
  CHECK(o.optimizer.lars_biases);
  CHECK(o.optimizer.momentum == 0.9);
  CHECK(o.schedule.kind == ScheduleKind::kPoly);
  CHECK(o.schedule.decay_steps == 7);
  CHECK(o.schedule.poly_power == 0.9);
  CHECK(o.shuffle == Shuffle::kLocal);
  REQUIRE(o.stage);
  CHECK(o.stage->directory == "s");
  CHECK(o.stage->codec == StageCodec::kDeflate);
  CHECK(o.stage->keep);
  CHECK(o.seed == 18446744073709551615u);
  REQUIRE(o.skips.size() == 1);
  CHECK(o.skips[0].epoch == 2);
  CHECK(o.clip_norm == 3);
  CHECK(o.accumulate == 2);
  CHECK(o.wall_limit_s == 60);
  CHECK(o.keep == 5);
  CHECK(o.payload == DataType::kBfloat16);
  CHECK(o.evaluate_every == 0);
  CHECK_FALSE(o.crops);
  CHECK_FALSE(planned({}).clip_norm);
  CHECK_FALSE(planned({}).stage);
}

TEST_CASE("the help page lists each setting by its rule, once") {
  Options options = all_run_options();
  const std::string text = describe_resume_rules(options);
  for (const ResumeRule& rule : resume_rules(options)) CHECK(contains(text, rule.name));
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
    CHECK(text.find('\n', begin) - begin <= 84);
}

}  // namespace halomesh
