// The options of training: see train_options.hpp.
#include "src/apps/train_options.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "src/apps/mlperf_options.hpp"
#include "src/apps/model_options.hpp"
#include "src/apps/progress_option.hpp"
#include "src/nn/schedule.hpp"

namespace halomesh {
namespace {

using Integer = std::int64_t;

void add_data_options(Options& options) {
  options.group("Data")
      .add_required<std::string>("data", "DIR", "directory that holds train/ and validation/")
      .add_choice("shuffle", {"local", "global"}, "global",
                  "permute all samples each epoch, or each replica's fixed share")
      .add<std::string>("stage-dir", "DIR", "", "node-local directory to copy the data to")
      .add_choice("stage-codec", {"none", "deflate"}, "none", "how staged blocks are compressed")
      .add_switch("keep-stage", "leave the staged data for the next run")
      .add<bool>("augment", "on|off", false, "flip and turn training samples at random");
}

void add_run_options(Options& options) {
  options.group("Run")
      .add_required<std::string>("out", "DIR", "directory for results and checkpoints")
      .add<PartGrid>("parts", "DxHxW", PartGrid{}, "parts that a sample is cut into")
      .add<Integer>("batch", "B", 1, "samples of a step, over all replicas")
      .at_least(1)
      .add<Integer>("epochs", "N", 1, "stop after so many epochs; 0: no limit")
      .at_least(0)
      .add<Integer>("steps", "N", 0, "stop after so many steps; 0: no limit")
      .at_least(0)
      .add_choice("precision", {"fp32", "bf16"}, "fp32", "numbers that layers compute with")
      .add<std::uint64_t>("seed", "S", 0, "decides first weights, order and dropout")
      .add<double>("target-mae", "X", 0.0, "stop once a validation reaches it; 0: never")
      .at_least(0)
      .add<Integer>("evaluate-every", "N", 1, "epochs between validations; 0: never")
      .at_least(0)
      .add_switch("evaluate-first", "validate before the first step, too")
      .add<Integer>("checkpoint-every", "N", 0, "steps between checkpoints; 0: each epoch")
      .at_least(0)
      .add<Integer>("keep", "N", 2, "checkpoints that are kept")
      .at_least(1)
      .add<std::string>("resume", "auto|never|FILE", "auto", "continue from a checkpoint")
      .add<std::string>("init-from", "FILE", "", "take first weights from a checkpoint")
      .add<double>("wall-limit", "S", 0.0, "seconds to end cleanly within; 0: no limit")
      .at_least(0)
      .add<std::string>("trace", "FILE", "", "write where the time goes");
  add_reduction_option(options);
  add_progress_option(options);
}

void add_optimizer_options(Options& options) {
  const ScheduleOptions schedule;
  options.group("Optimizer")
      .add<double>("lr", "PEAK", schedule.peak, "learning rate after the warm-up")
      .at_least(0)
      .add<double>("momentum", "M", 0.9, "share of the last step's update that is kept")
      .at_least(0)
      .below(1)
      .add<double>("weight-decay", "W", 0.0, "coupled weight decay, of all parameters")
      .at_least(0)
      .add_choice("schedule", {"constant", "step", "linear"}, to_string(schedule.kind),
                  "how the rate falls after the warm-up")
      .add<Integer>("warmup-epochs", "N", schedule.warmup_epochs, "epochs of warm-up")
      .at_least(0)
      .add<double>("warmup-initial-lr", "X", schedule.warmup_initial, "rate of the first of them")
      .at_least(0)
      .add<std::vector<Integer>>("decay-epochs", "N,N", schedule.decay_epochs,
                                 "step: epochs after which the rate falls")
      .add<std::vector<double>>("decay-factors", "X,X", schedule.decay_factors,
                                "step: to these fractions of the peak")
      .add<Integer>("linear-epochs", "N", schedule.linear_epochs, "linear: epochs of the fall")
      .at_least(1)
      .add<double>("linear-end-factor", "X", schedule.linear_end_factor,
                   "linear: last rate as a fraction of the peak")
      .at_least(0);
}

}  // namespace

void add_reduction_option(Options& options) {
  options.add_choice("reduction", {"auto", "flat", "two-level"}, "auto",
                     "sum gradients at once, or first inside of each replica");
}

void add_training_options(Options& options) {
  add_data_options(options);
  add_run_options(options);
  add_optimizer_options(options);
  add_mlperf_options(options);
}

Options all_run_options() {
  Options options("", "");
  add_model_options(options);
  add_training_options(options);
  return options;
}

}  // namespace halomesh
