// SPDX-License-Identifier: Apache-2.0
// The options of training: see train_options.hpp.
#include "src/apps/options/train_options.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/load/crop_options.hpp"
#include "src/apps/options/misplacement_option.hpp"
#include "src/apps/options/mlperf_options.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/padding_option.hpp"
#include "src/nn/optimizers/registry.hpp"
#include "src/nn/schedule.hpp"

namespace halomesh {
namespace {

using Integer = std::int64_t;

constexpr const char *kOptimizer = "optimizer", *kSchedule = "schedule";

void add_data_options(Options& options) {
  options.group("Data")
      .add_required<std::string>("data", "DIR", "directory that holds train/ and validation/")
      .add_choice("shuffle", {"local", "global"}, "global",
                  "shuffle all samples every epoch, or only within each replica's fixed share")
      .add<std::string>("stage-dir", "DIR", "",
                        "node-local directory to stage the data in, e.g. /dev/shm")
      .add_choice("stage-codec", {"none", "deflate"}, "none", "compression of staged blocks")
      .needs("stage-dir")
      .add_switch("keep-stage", "keep the staged data for the next run")
      .needs("stage-dir")
      .needs("instances", {"1"})
      .add<bool>("augment", "on|off", false,
                 "augment training samples by random flips and axis permutations")
      .add_choice("patches", {"off", "random"}, "off",
                  "random: train on random crops of --input from samples of any extents, and "
                  "validate by windows that slide over them")
      .needs("model", networks_that_pad())
      .add<double>("foreground", "P", CropOptions().foreground,
                   "share of the random crops that have a voxel of a randomly chosen class but the "
                   "first")
      .at_least(0)
      .at_most(1)
      .needs("patches")
      .add<double>("overlap", "X", CropOptions().overlap,
                   "share of a window that it has in common with the next, in validations with "
                   "--patches random")
      .at_least(0)
      .below(1)
      .needs("patches")
      .needs("evaluate-every")
      .add<double>(
          "pad", "VALUE", 0,
          "allow samples smaller than a crop or than --input, or of extents that the network "
          "cannot halve: voxels outside have this value and do not count")
      .needs("model", networks_that_pad());
  add_misplacement_option(options);
}

void add_run_options(Options& options, const std::string& default_out) {
  const char* out_help = "directory for results and checkpoints";
  options.group("Run");
  if (default_out.empty())
    options.add_required<std::string>("out", "DIR", out_help);
  else
    options.add<std::string>("out", "DIR", default_out, out_help);
  options
      .add<PartGrid>("parts", "DxHxW", PartGrid{},
                     "parts along depth, height and width that each sample is cut into")
      .add<Integer>("batch", "B", 1, "global batch size: samples per step over all replicas")
      .at_least(1)
      .add<Integer>("epochs", "N", 1, "epochs to train; 0: no limit")
      .at_least(0)
      .add<Integer>("steps", "N", 0, "steps to train; 0: no limit")
      .at_least(0)
      .add_choice("precision", {"fp32", "bf16"}, "fp32", "compute precision")
      .add<std::uint64_t>("seed", "S", 0,
                          "seed of the initial weights, the sample order, augmentation and dropout")
      .add<double>("target-score", "X", 0.0,
                   "stop when the score of a validation reaches X: an MAE of at most X, or a Dice "
                   "coefficient or IoU of at least X; 0: never")
      .at_least(0)
      .needs("evaluate-every")
      .add<double>("target-mae", "X", 0.0,
                   "the same, only for networks whose score is the MAE; 0: never")
      .at_least(0)
      .needs("evaluate-every")
      .needs("model", networks_that_pad(false))
      .instead_of("target-score")
      .add<Integer>("evaluate-every", "N", 1, "epochs between validations; 0: no validation")
      .at_least(0)
      .add_switch("evaluate-first", "also validate before the first step")
      .needs("evaluate-every")
      .add<Integer>("checkpoint-every", "N", 0, "steps between checkpoints; 0: one per epoch")
      .at_least(0)
      .add<Integer>("keep", "N", 2, "number of checkpoints to keep")
      .at_least(1)
      .add<std::string>("resume", "auto|never|FILE", "auto",
                        "resume from the latest checkpoint in --out, from none, or from FILE")
      .add_switch("allow-changes",
                  "resume with settings that differ from the checkpoint's; see below")
      .add<std::string>("init-from", "FILE", "", "initial weights from a checkpoint")
      .add<double>("wall-limit", "S", 0.0,
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
  add_recompute_option(options);
  options
      .add<Integer>("instances", "N", 1,
                    "train N models at once, each on 1/N of the ranks, into OUT/instance-00, "
                    "OUT/instance-01, ...; the seed of instance K is S + K")
      .at_least(1);
}

void add_optimizer_options(Options& options) {
  const OptimizerOptions defaults;
  options.group("Optimizer");
  add_optimizer_choice(options);
  options.add<double>("momentum", "M", defaults.momentum, "momentum of sgd, nesterov and lars")
      .at_least(0)
      .below(1)
      .needs(kOptimizer, {"sgd", "nesterov", "lars"})
      .add<double>("weight-decay", "W", defaults.weight_decay,
                   "weight decay of all parameters; lars: but of biases")
      .at_least(0)
      .add<std::vector<double>>("betas", "B1,B2", {defaults.betas[0], defaults.betas[1]},
                                "decay of the two moments of adamw and lamb")
      .at_least(0)
      .below(1)
      .needs(kOptimizer, {"adamw", "lamb"})
      .add<double>("epsilon", "E", defaults.epsilon, "added to the divisor of adamw, lamb and lars")
      .at_least(0)
      .needs(kOptimizer, {"adamw", "lamb", "lars"})
      .add<double>("lars-coefficient", "X", defaults.lars_coefficient,
                   "lars: the rate of a tensor in units of --lr |weights| / |gradient|")
      .at_least(0)
      .needs(kOptimizer, {"lars"})
      .add<bool>("lars-biases", "on|off", defaults.lars_biases,
                 "lars: scale and decay biases as well, and what else has one number per channel")
      .needs(kOptimizer, {"lars"})
      .add<std::string>("clip-norm", "X|auto", "auto",
                        "largest norm of the gradient; 0: no limit; auto: 1 with lamb, else 0")
      .add<std::string>("skip-gradients", "K@N,K@N", "",
                        "after N epochs leave the first K layers with parameters as they are: "
                        "without backward, gradients and their sums")
      .add<Integer>("accumulate", "N", 1,
                    "forward and backward passes per step, each over 1/N of the batch, with 1/N "
                    "of the memory for activations")
      .at_least(1);
}

void add_schedule_options(Options& options) {
  const ScheduleOptions schedule;
  options.group("Learning rate")
      .add<double>("lr", "PEAK", schedule.peak, "learning rate after the warm-up")
      .at_least(0)
      .add_choice(kSchedule, schedule_names(), to_string(schedule.kind),
                  "learning-rate schedule after the warm-up")
      .add<Integer>("warmup-epochs", "N", schedule.warmup_epochs, "epochs of linear warm-up")
      .at_least(0)
      .add<double>("warmup-initial-lr", "X", schedule.warmup_initial,
                   "learning rate at the start of a warm-up by epochs")
      .at_least(0)
      .needs("warmup-epochs")
      .add<Integer>("warmup-steps", "N", schedule.warmup_steps,
                    "steps of linear warm-up from 0, instead of epochs")
      .at_least(0)
      .instead_of("warmup-epochs")
      .add<std::vector<Integer>>("decay-epochs", "N,N", schedule.decay_epochs,
                                 "step: epochs after which the learning rate drops")
      .needs(kSchedule, {"step"})
      .add<std::vector<double>>("decay-factors", "X,X", schedule.decay_factors,
                                "step: fractions of the peak that it drops to")
      .needs(kSchedule, {"step"})
      .add<Integer>("linear-epochs", "N", schedule.linear_epochs, "linear: epochs of the decay")
      .at_least(1)
      .needs(kSchedule, {"linear"})
      .add<double>("linear-end-factor", "X", schedule.linear_end_factor,
                   "linear: final learning rate as a fraction of the peak")
      .at_least(0)
      .needs(kSchedule, {"linear"})
      .add<std::vector<Integer>>("milestones", "N,N", schedule.milestones,
                                 "multistep: steps after the warm-up at which the rate drops")
      .needs(kSchedule, {"multistep"})
      .add<double>("gamma", "X", schedule.gamma, "multistep: factor of each drop")
      .at_least(0)
      .needs(kSchedule, {"multistep"})
      .add<Integer>("decay-steps", "N", schedule.decay_steps,
                    "cosine, poly: steps of the decay after the warm-up")
      .at_least(0)
      .needs(kSchedule, {"cosine", "poly"})
      .add<double>("min-lr", "X", schedule.min_lr, "cosine, poly: final learning rate")
      .at_least(0)
      .needs(kSchedule, {"cosine", "poly"})
      .add<double>("poly-power", "P", schedule.poly_power, "poly: power of the decay")
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
  const std::vector<std::string> names = options.names();
  // Some commands lack some of these options.
  for (const Refused& needed :
       {Refused{"kernels", "auto", "it has kernels of its own"},
        {"cuts", "auto", "layers are cut between the cells of their sums"},
        {"reduction", "auto", "exact sums are MPI's own, as their order does not matter"},
        {"gradient-payload", "fp32", "rounded gradients depend on how they travel"},
        {"skip-gradients", "", "it sums the gradients of all layers"},
        {"shuffle", "global", "a local shuffle depends on the number of replicas"}}) {
    if (std::find(names.begin(), names.end(), needed.name) == names.end()) continue;
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
  options.add_choice(
      "reduction", {"auto", "halving", "doubling", "ring", "two-level", "binomial", "flat", "mpi"},
      "auto",
      "sums of gradients; auto: the least cost for each; flat or mpi: MPI's own; binomial: to "
      "compare");
}

void add_payload_option(Options& options) {
  options.add_choice(
      "gradient-payload", {"fp32", "bf16"}, "fp32",
      "type of gradients in messages; bf16: half the bytes, with what rounding takes "
      "added to later gradients");
}

void add_reproducible_option(Options& options) {
  options
      .add_switch("reproducible",
                  "compute the same bits on every mesh, number of replicas and of threads, "
                  "with sums that are exact; see docs/reproducible.md")
      .then(check_reproducible);
}

void add_recompute_option(Options& options) {
  options.add_choice("recompute", {"off", "on", "auto"}, "off",
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
  options.add_choice(kOptimizer, optimizer_names(), OptimizerOptions().name,
                     "what updates the weights");
}

std::unique_ptr<Optimizer> chosen_optimizer(const Options& options) {
  OptimizerOptions optimizer;
  optimizer.name = options.get<std::string>(kOptimizer);
  return make_optimizer(optimizer);
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

Options all_run_options() {
  Options options("", "");
  add_model_options(options);
  add_training_options(options);
  return options;
}

}  // namespace halomesh
