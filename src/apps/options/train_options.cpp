// SPDX-License-Identifier: Apache-2.0
// The options of training: see train_options.hpp.
#include "src/apps/options/train_options.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "counted.hpp"
#include "runtime/train/trainer_options.hpp"
#include "src/apps/options/misplacement_option.hpp"
#include "src/apps/options/mlperf_options.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/padding_option.hpp"
#include "src/apps/options/source_options.hpp"
#include "src/nn/optimizers/registry.hpp"

namespace halomesh {
namespace {

using Integer = std::int64_t;
using enum SettingRole;

constexpr const char *kOptimizer = "optimizer", *kSchedule = "schedule";

void add_data_options(Options& options) {
  options.group("Data")
      .as(kComputing)
      .add_required<std::string>("data", "DIR", "directory that holds train/ and validation/")
      .as(kNetwork)
      .add_choice("shuffle", {"local", "global"}, "global",
                  "shuffle all samples every epoch, or only within each replica's fixed share")
      .into(&TrainerOptions::shuffle,
            [](const std::string& s) { return s == "local" ? Shuffle::kLocal : Shuffle::kGlobal; })
      .as(kComputing)
      .add<std::string>("stage-dir", "DIR", "",
                        "node-local directory to stage the data in, e.g. /dev/shm")
      .add_choice("stage-codec", {"none", "deflate"}, "none", "compression of staged blocks")
      .into(&StageOptions::codec,
            [](const std::string& s) {
              return s == "deflate" ? StageCodec::kDeflate : StageCodec::kNone;
            })
      .needs("stage-dir")
      .add_switch("keep-stage", "keep the staged data for the next run")
      .into(&StageOptions::keep)
      .needs("stage-dir")
      .needs("instances", {"1"})
      .as(kTraining)
      .add_choice(
          "augment", {"on", "off", "flips"}, "off",
          "augment training samples: on: by random flips, and permutations of axes of equal "
          "extent and spacing of voxels; flips: by flips alone")
      .into(&TrainerOptions::augment, [](const std::string& s) { return s != "off"; })
      .add_choice("patches", {"off", "random"}, "off",
                  "random: train on random crops of --input from samples of any extents, and "
                  "validate by windows that slide over them")
      .recorded(Options::Recorded::kUnlessDefault)
      .into(&CropOptions::random, [](const std::string& s) { return s == "random"; })
      .needs("model", networks_that_pad())
      .add("foreground", "P", &CropOptions::foreground,
           "share of random crops that contain a voxel of a random class other than the first")
      .at_least(0)
      .at_most(1)
      .needs("patches")
      .as(kComputing)
      .add("overlap", "X", &CropOptions::overlap,
           "share of a window that it has in common with the next, in validations with "
           "--patches random")
      .at_least(0)
      .below(1)
      .needs("patches")
      .needs("evaluate-every")
      .as(kTraining)
      .add<double>(
          "pad", "VALUE", 0,
          "allow samples smaller than a crop or than --input, or of extents that the network "
          "cannot halve: voxels outside have this value and do not count")
      .recorded(Options::Recorded::kIfGiven)
      .rounded()
      .zero_is_value()
      .needs("model", networks_that_pad());
  add_misplacement_option(options);
  add_source_options(options);
  add_share_option(options);
}

void add_run_options(Options& options, const std::string& default_out) {
  const char* out_help = "directory for results and checkpoints";
  options.group("Run").as(kFree);
  if (default_out.empty())
    options.add_required<std::string>("out", "DIR", out_help);
  else
    options.add<std::string>("out", "DIR", default_out, out_help);
  options.as(kComputing)
      .add<PartGrid>("parts", "DxHxW", PartGrid{},
                     "parts along depth, height and width that each sample is cut into")
      .as(kNetwork)
      .add("batch", "B", &TrainerOptions::global_batch,
           "global batch size: samples per step over all replicas")
      .at_least(1)
      .as(kComputing)
      .add("epochs", "N", &TrainerOptions::epochs, "epochs to train; 0: no limit")
      .at_least(0)
      .add("steps", "N", &TrainerOptions::steps, "steps to train; 0: no limit")
      .at_least(0)
      .as(kTraining)
      .add_choice("precision", {"fp32", "bf16"}, "fp32", "compute precision")
      .as(kNetwork)
      .add("seed", "S", &TrainerOptions::seed,
           "seed of the initial weights, the sample order, augmentation and dropout")
      .as(kComputing)
      .add<double>("target-score", "X", 0.0,
                   "stop when the score of a validation reaches X: an MAE of at most X, or a Dice "
                   "coefficient, IoU or accuracy of at least X; 0: never")
      .at_least(0)
      .needs("evaluate-every")
      .add<double>("target-mae", "X", 0.0,
                   "the same, only for networks whose score is the MAE; 0: never")
      .at_least(0)
      .needs("evaluate-every")
      .needs("model", networks_that_pad(false))
      .instead_of("target-score")
      .add("evaluate-every", "N", &TrainerOptions::evaluate_every,
           "epochs between validations; 0: no validation")
      .at_least(0)
      .add_switch("evaluate-first", "also validate before the first step")
      .into(&TrainerOptions::evaluate_first)
      .needs("evaluate-every")
      .as(kFree)
      .add("checkpoint-every", "N", &TrainerOptions::checkpoint_every,
           "steps between checkpoints; 0: one per epoch")
      .at_least(0)
      .add("keep", "N", &TrainerOptions::keep, "number of checkpoints to keep")
      .at_least(1)
      .as(kComputing)
      .add<std::string>("resume", "auto|never|FILE", "auto",
                        "resume from the latest checkpoint in --out, from none, or from FILE")
      .add_switch("allow-changes",
                  "resume with settings that differ from the checkpoint's; see below")
      .into(&TrainerOptions::allow_changes)
      .add<std::string>("init-from", "FILE", "", "initial weights from a checkpoint")
      .as(kFree)
      .add("wall-limit", "S", &TrainerOptions::wall_limit_s,
           "stop cleanly, with a checkpoint, within S seconds; 0: no limit")
      .at_least(0)
      .add<std::string>(
          "trace", "FILE", "",
          "write a timeline of the ranks for Perfetto, as JSON; gzipped where the name ends in .gz")
      .needs("instances", {"1"})
      .add<std::string>("trace-steps", "FIRST+COUNT", "5+3",
                        "steps in the trace; the first step of this run is 1")
      .needs("trace")
      .add<std::string>("trace-ranks", "LIST|all|auto", "auto",
                        "ranks in the trace, e.g. 0-3,8; auto: all up to 64, beyond a selection")
      .needs("trace");
  add_reduction_option(options);
  add_payload_option(options);
  add_reproducible_option(options);
  options.into(&TrainerOptions::reproducible);
  add_recompute_option(options);
  options.as(kComputing)
      .add<Integer>("instances", "N", 1,
                    "train N models at once, each on 1/N of the ranks, into OUT/instance-00, "
                    "OUT/instance-01, ...; the seed of instance K is S + K")
      .at_least(1);
}

std::array<double, 2> parse_betas(const std::string& text) {
  const auto betas = from_text<std::vector<double>>(text).value_or(std::vector<double>{});
  if (betas.size() != 2)
    throw UsageError(fmt::format("--betas {} has {}", text, counted(std::ssize(betas), "number")),
                     "give two, such as --betas 0.9,0.999");
  return {betas[0], betas[1]};
}

std::optional<double> parse_clip_norm(const std::string& text) {
  if (text == "auto") return {};
  const auto norm = from_text<double>(text);
  if (!norm || *norm < 0 || !fits_fp32(*norm))
    throw UsageError(fmt::format("--clip-norm {} is not a norm", text),
                     "give auto, 0 or the largest norm of the gradient, e.g. --clip-norm 1");
  return norm;
}

void add_optimizer_options(Options& options) {
  const auto betas = OptimizerOptions().betas;
  options.group("Optimizer");
  add_optimizer_choice(options);
  options.as(kTraining)
      .add("momentum", "M", &OptimizerOptions::momentum, "momentum of sgd, nesterov and lars")
      .rounded()
      .at_least(0)
      .below(1)
      .needs(kOptimizer, {"sgd", "nesterov", "lars"})
      .add("weight-decay", "W", &OptimizerOptions::weight_decay,
           "weight decay of all parameters; lars: of all but biases")
      .rounded()
      .at_least(0)
      .add<std::vector<double>>("betas", "B1,B2", {betas[0], betas[1]},
                                "decay of the two moments of adamw and lamb")
      .into(&OptimizerOptions::betas, parse_betas)
      .at_least(0)
      .below(1)
      .needs(kOptimizer, {"adamw", "lamb"})
      .add("epsilon", "E", &OptimizerOptions::epsilon,
           "added to the divisor of adamw, lamb and lars")
      .at_least(0)
      .needs(kOptimizer, {"adamw", "lamb", "lars"})
      .add("lars-coefficient", "X", &OptimizerOptions::lars_coefficient,
           "lars: the rate of a tensor in units of --lr |weights| / |gradient|")
      .at_least(0)
      .needs(kOptimizer, {"lars"})
      .add("lars-biases", "on|off", &OptimizerOptions::lars_biases,
           "lars: also scale and decay biases and other parameters of one number per channel")
      .needs(kOptimizer, {"lars"})
      .add<std::string>("clip-norm", "X|auto", "auto",
                        "largest norm of the gradient; 0: no limit; auto: 1 with lamb, else 0")
      .into(&TrainerOptions::clip_norm, parse_clip_norm)
      .add<std::string>("skip-gradients", "K@N,K@N", "",
                        "after N epochs leave the first K layers with parameters as they are: "
                        "without backward, gradients and their sums")
      .recorded(Options::Recorded::kUnlessDefault)
      .into(&TrainerOptions::skips, parse_gradient_skips)
      .as(kComputing)
      .add("accumulate", "N", &TrainerOptions::accumulate,
           "forward and backward passes per step, each over 1/N of the batch, with 1/N "
           "of the memory for activations")
      .at_least(1);
}

void add_schedule_options(Options& options) {
  options.group("Learning rate")
      .as(kTraining)
      .add("lr", "PEAK", &ScheduleOptions::peak, "learning rate after the warm-up")
      .at_least(0)
      .add_choice(kSchedule, schedule_names(), to_string(ScheduleOptions().kind),
                  "learning-rate schedule after the warm-up")
      .into(&ScheduleOptions::kind, parse_schedule_kind)
      .add("warmup-epochs", "N", &ScheduleOptions::warmup_epochs, "epochs of linear warm-up")
      .at_least(0)
      .add("warmup-initial-lr", "X", &ScheduleOptions::warmup_initial,
           "learning rate at the start of a warm-up by epochs")
      .at_least(0)
      .needs("warmup-epochs")
      .add("warmup-steps", "N", &ScheduleOptions::warmup_steps,
           "steps of linear warm-up from 0, instead of epochs")
      .recorded(Options::Recorded::kUnlessDefault)
      .at_least(0)
      .instead_of("warmup-epochs")
      .add("decay-epochs", "N,N", &ScheduleOptions::decay_epochs,
           "step: epochs after which the learning rate drops")
      .needs(kSchedule, {"step"})
      .add("decay-factors", "X,X", &ScheduleOptions::decay_factors,
           "step: fractions of the peak that it drops to")
      .needs(kSchedule, {"step"})
      .add("linear-epochs", "N", &ScheduleOptions::linear_epochs, "linear: epochs of the decay")
      .at_least(1)
      .needs(kSchedule, {"linear"})
      .add("linear-end-factor", "X", &ScheduleOptions::linear_end_factor,
           "linear: final learning rate as a fraction of the peak")
      .at_least(0)
      .needs(kSchedule, {"linear"})
      .add("milestones", "N,N", &ScheduleOptions::milestones,
           "multistep: steps after the warm-up at which the rate drops")
      .needs(kSchedule, {"multistep"})
      .add("gamma", "X", &ScheduleOptions::gamma, "multistep: factor of each drop")
      .at_least(0)
      .needs(kSchedule, {"multistep"})
      .add("decay-steps", "N", &ScheduleOptions::decay_steps,
           "cosine, poly: steps of the decay after the warm-up")
      .at_least(0)
      .needs(kSchedule, {"cosine", "poly"})
      .add("min-lr", "X", &ScheduleOptions::min_lr, "cosine, poly: final learning rate")
      .at_least(0)
      .needs(kSchedule, {"cosine", "poly"})
      .add("poly-power", "P", &ScheduleOptions::poly_power, "poly: power of the decay")
      .at_least(0)
      .needs(kSchedule, {"poly"});
}

/// Refuses options that --reproducible excludes. Of two conflicting options, one on the command
/// line overrides the other in a file.
void check_reproducible(Options& options) {
  constexpr const char* kReproducible = "reproducible";
  struct Refused {
    const char *name, *value, *why;
  };
  // Some commands lack some of these options.
  for (const Refused& needed :
       {Refused{"kernels", "auto", "it has kernels of its own"},
        {"cuts", "auto", "layers are cut between the cells of their sums"},
        {"reduction", "auto", "exact sums are MPI's own, as their order does not matter"},
        {"gradient-payload", "fp32", "rounded gradients depend on how they travel"},
        {"skip-gradients", "", "it sums the gradients of all layers"},
        {"shuffle", "global", "a local shuffle depends on the number of replicas"}}) {
    if (!options.is_declared(needed.name)) continue;
    const auto value = options.get<std::string>(needed.name);
    if (!options.get<bool>(kReproducible) || value == needed.value) continue;
    if (options.is_typed(needed.name) == options.is_typed(kReproducible))
      throw UsageError(fmt::format("--reproducible cannot be combined with --{} {}: {}",
                                   needed.name, value, needed.why),
                       *needed.value == '\0'
                           ? fmt::format("leave out --{}", needed.name)
                           : fmt::format("use --{} {}, or train without --reproducible",
                                         needed.name, needed.value));
    if (options.is_typed(kReproducible))
      options.set_aside(needed.name, "with --reproducible", {});
    else
      options.set_aside(kReproducible, fmt::format("with --{} {}", needed.name, value), {});
  }
}

}  // namespace

void add_reduction_option(Options& options) {
  options.as(kComputing)
      .add_choice(
          "reduction",
          {"auto", "halving", "doubling", "ring", "two-level", "binomial", "flat", "mpi"}, "auto",
          "sums of gradients; auto: the least cost for each; flat or mpi: MPI's own; binomial: to "
          "compare");
}

void add_payload_option(Options& options) {
  options.as(kTraining).add_choice(
      "gradient-payload", {"fp32", "bf16"}, "fp32",
      "type of gradients in messages; bf16: half the bytes, with what rounding takes "
      "added to later gradients");
  options.recorded(Options::Recorded::kUnlessDefault);
}

void add_reproducible_option(Options& options) {
  options.as(kTraining)
      .add_switch("reproducible",
                  "compute the same bits on every mesh, number of replicas and of threads, "
                  "with sums that are exact; see docs/reproducible.md")
      .recorded(Options::Recorded::kUnlessDefault)
      .then(check_reproducible);
}

void add_recompute_option(Options& options) {
  options.as(kComputing)
      .add_choice("recompute", {"off", "on", "auto"}, "off",
                  "on: outputs of cheap layers (normalization, activation, concatenation) are "
                  "not kept for the backward pass but computed again: less memory, more time, "
                  "the same results; auto: only where the memory would not suffice otherwise");
}

std::optional<MemoryUse> memory_use(const Options& options) {
  const auto recompute = options.get<std::string>("recompute");
  if (recompute == "auto") return {};
  return recompute == "on" ? MemoryUse::kRecomputed : MemoryUse::kShared;
}

double target_score(const Options& options, Score score) {
  const auto mae = options.get<double>("target-mae"), target = options.get<double>("target-score");
  if (higher_is_better(score) && target > 1)
    throw UsageError(fmt::format("--target-score {:g}: {} is at most 1", target, title_of(score)),
                     "give a number between 0 and 1");
  return std::max(mae, target);
}

DataType payload_type(const Options& options) {
  return options.get<std::string>("gradient-payload") == "bf16" ? DataType::kBfloat16
                                                                : DataType::kFloat32;
}

void add_optimizer_choice(Options& options) {
  options.as(kNetwork)
      .add_choice(kOptimizer, optimizer_names(), OptimizerOptions().name,
                  "what updates the weights")
      .into(&OptimizerOptions::name);
}

std::unique_ptr<Optimizer> chosen_optimizer(const Options& options) {
  return make_optimizer(options.read<OptimizerOptions>());
}

std::int64_t state_arrays(const Options& options) {
  const bool keeps_residual = payload_type(options) == DataType::kBfloat16;
  return std::ssize(chosen_optimizer(options)->states()) + (keeps_residual ? 1 : 0);
}

void add_training_options(Options& options, const std::string& default_out) {
  add_data_options(options);
  add_run_options(options, default_out);
  add_optimizer_options(options);
  add_schedule_options(options);
  add_mlperf_options(options);
}

std::vector<ResumeRule> resume_rules(const Options& options) {
  std::vector<ResumeRule> rules = network_resume_rules();
  for (const auto& [name, role] : options.roles()) rules.push_back({name, role});
  rules.push_back({"training-samples", kNetwork});
  return rules;
}

std::string describe_resume_rules(const Options& options) {
  const std::vector<ResumeRule> rules = resume_rules(options);
  const auto names = [&](std::initializer_list<SettingRole> roles) {
    std::string text;
    std::size_t line = 0;
    for (const ResumeRule& r : rules) {
      if (std::find(roles.begin(), roles.end(), r.role) == roles.end()) continue;
      const bool wraps = text.size() - line + r.name.size() > 78;
      text += text.empty() ? "" : wraps ? ",\n    " : ", ";
      if (wraps) line = text.size() - 4;
      text += r.name;
    }
    return text;
  };
  return fmt::format(
      "What may change when resuming\n  never:\n    {}\n  only with --allow-changes, as the curve "
      "changes:\n    {}\n  freely, as the curve stays the same up to rounding or only ends "
      "elsewhere:\n    {}\n",
      names({kNetwork}), names({kTraining}), names({kComputing, kFree}));
}

Options all_run_options() {
  Options options("", "");
  add_model_options(options);
  add_training_options(options);
  return options;
}

}  // namespace halomesh
