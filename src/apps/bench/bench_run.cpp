// SPDX-License-Identifier: Apache-2.0
// One mesh in one precision, measured: see bench_run.hpp.
#include "src/apps/bench/bench_run.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <utility>

#include "runtime/load/direct_loader.hpp"
#include "runtime/mpi/spread_over.hpp"
#include "runtime/posix/process_memory.hpp"
#include "runtime/step/evaluator.hpp"
#include "runtime/step/phase_reduction.hpp"
#include "runtime/step/training_step.hpp"
#include "src/apps/bench/bench_input.hpp"
#include "src/apps/bench/idle_loader.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/train/memory_choice.hpp"
#include "src/apps/train/network_on_mesh.hpp"
#include "src/nn/optimizers/sgd.hpp"
#include "src/nn/timed_loss.hpp"
#include "trace.hpp"

namespace halomesh {
namespace {

constexpr float kRate =
    1e-4f;  // small: training on random targets must not change the weights much
constexpr std::size_t kEventsOfAStep = 1 << 16;
constexpr std::size_t kEvaluationPasses = 3;

/// Runs training steps on generated samples and traces each.
class MeasuredTraining {
 public:
  MeasuredTraining(NetworkOnMesh& network, const BenchPlan& plan, std::int64_t local,
                   MemoryUse memory, bool computes)
      : network_(network),
        seed_(plan.seed),
        local_(local),
        trace_(kEventsOfAStep),
        loss_(*network.loss),
        training_(network.mesh, network.model, network.geometry, network.parameters, optimizer_,
                  loss_, local, &trace_, plan.reduction,
                  {1, 0, plan.payload, plan.reproducible, memory}) {
    if (!plan.sends_early) training_.executor().send_with_layers();
    const BatchSpec spec{network.model.input(),
                         executor().input_span(),
                         loss_.target_box(executor().output().span),
                         local,
                         network.model.input_type(),
                         network.mesh.replica(),
                         loss_.target_shape(),
                         loss_.target_type()};
    if constexpr (!simulation::kOn)
      if (computes)
        loader_ = std::make_unique<DirectLoader>(
            std::make_unique<GeneratedReader>(plan.seed, network.model.input(),
                                              network.geometry.tensors().back().shape.c,
                                              loss_.sample_classes()),
            spec);
    if (loader_ == nullptr) loader_ = std::make_unique<IdleLoader>(spec);
    loader_->append(order(plan.warm_up + plan.steps).validation());
  }

  /// Trains one step and returns its loss; its intervals are in trace().
  double step();
  /// Samples per second of all ranks in an evaluation pass of `steps`.
  double evaluate_pass(std::int64_t steps);
  NetworkSpeed network();

  const Trace& trace() const { return trace_; }
  const Executor& executor() const { return training_.executor(); }

 private:
  SampleOrder order(std::int64_t steps) const {
    const std::int64_t replicas = network_.mesh.shape().replicas;
    return {Shuffle::kGlobal, seed_, steps * replicas * local_, replicas, local_};
  }

  NetworkOnMesh& network_;
  std::uint64_t seed_;
  std::int64_t local_, step_ = 0;
  Trace trace_;
  Sgd optimizer_;
  Loss& loss_;
  TrainingStep training_;
  std::unique_ptr<Loader> loader_;
};

double MeasuredTraining::step() {
  trace_.clear();
  const TraceScope whole(&trace_, Phase::kStep);
  const double loss = training_.run(*loader_, {seed_, step_++, kRate});
  const TraceScope scope(&trace_, Phase::kReductionWait, "loss");
  return network_.mesh.world().sum(loss);
}

double MeasuredTraining::evaluate_pass(std::int64_t steps) {
  const SampleOrder samples = order(steps);
  const Evaluation result = evaluate(network_.mesh, training_.executor(), *loader_, loss_, samples);
  trace_.clear();
  return static_cast<double>(samples.samples) / result.seconds;
}

NetworkSpeed MeasuredTraining::network() {
  NetworkSpeed speed = measure_network(network_.mesh.world(), training_, network_.parameters);
  trace_.clear();
  return speed;
}

/// The names of the arrays, each as large as the parameters, that training keeps.
std::vector<std::string> kept_states(DataType payload) {
  std::vector<std::string> states = Sgd().states();
  if (payload == DataType::kBfloat16) states.emplace_back(kGradientResidual);
  return states;
}

/// Merges this rank's phases with those of all others.
void merge_phases(const NetworkOnMesh& network, const PhaseTimes& times, BenchResult& result) {
  const Comm& world = network.mesh.world();
  const PhaseSummary summary =
      summarize_phases(world, phase_layers(network.geometry), times, {result.steps, result.steps});
  const StepWork work = StepWork::of_all_ranks(network.model, network.geometry,
                                               network.mesh.shape(), result.local_batch);
  for (const PhaseSummary::Row& row : summary.rows)
    result.rows.push_back(
        {row.key, row.seconds.mean, row.seconds.max, row.received_bytes, work.of(row.key)});
  result.flops = work.flops();
  result.mean_step_s = summary.step_s.mean;
  const auto share_of = [&](std::initializer_list<PhaseKind> kinds) {
    double share = 0;
    for (const PhaseKind kind : kinds) share += times.seconds(kind) / times.seconds();
    return share;
  };
  const std::vector<double> mine = {
      share_of({PhaseKind::kHaloWait}), share_of({PhaseKind::kReductionWait}),
      share_of({PhaseKind::kInputWait}), share_of({PhaseKind::kPacking}),
      share_of({PhaseKind::kHaloWait, PhaseKind::kReductionWait})};
  const std::vector<RankSpread> shares = spread_over(world, mine);
  StepShare* const parts[] = {&result.halo_wait, &result.reduction_wait, &result.input_wait,
                              &result.packing, &result.exchange_wait};
  for (std::size_t i = 0; i < shares.size(); ++i) *parts[i] = {shares[i].mean, shares[i].max};
}

void measure_steps(const NetworkOnMesh& network, MeasuredTraining& training, const BenchPlan& plan,
                   BenchResult& result) {
  const Comm& world = network.mesh.world();
  for (std::int64_t s = 0; s < plan.warm_up; ++s) training.step();
  PhaseTimes times;
  std::vector<double> seconds;
  for (std::int64_t s = 0; s < plan.steps; ++s) {
    result.last_loss = training.step();
    require(training.trace().dropped() == 0, "too many intervals in one step");
    times.add(training.trace().events());
    const TraceEvent& whole = training.trace().events().back();
    seconds.push_back(static_cast<double>(whole.end_ns - whole.begin_ns) * 1e-9);
  }
  require(std::isfinite(result.last_loss), text("the loss is {:g}", result.last_loss),
          "report it with the options of the run");
  std::vector<double> rates;
  for (double& s : seconds) {
    s = world.max(s);
    rates.push_back(static_cast<double>(result.setting.batch) / s);
  }
  result.step_s = spread_of(seconds);
  result.seconds = std::move(seconds);
  result.samples_per_s = spread_of(rates);
  merge_phases(network, times, result);
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  require(!values.empty(), "no values to summarise");
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return {(values[(n - 1) / 2] + values[n / 2]) / 2, values.front(), values.back()};
}

BenchResult run_case(const Comm& world, const Options& options, const BenchPlan& plan,
                     const BenchCase& setting, TimedMachine* machine) {
  BenchResult result;
  result.setting = setting;
  result.steps = plan.steps;
  result.local_batch = local_batch(setting.batch, setting.mesh);
  result.memory_of_this_run = world.max(std::int64_t{reset_peak_memory() ? 0 : 1}) == 0;
  NetworkOnMesh network(world,
                        {world.size(), setting.mesh.parts, options,
                         precision_named(setting.precision), plan.reproducible},
                        kept_states(plan.payload));
  network.model.set_chunk_order(plan.chunk_order);
  if (plan.pads) network.loss->expect_padding();
  if (machine != nullptr) {
    time_layers(network.model, machine->timing());
    network.loss = std::make_unique<TimedLoss>(std::move(network.loss));
  } else {
    network.spec.initialize(network.parameters, plan.seed);
  }
  result.parameters = network.geometry.parameter_count();
  result.reduction = plan.reduction;
  result.payload = plan.payload;
  MemorySetting memory_setting{.mesh = setting.mesh,
                               .batch = result.local_batch,
                               .optimizer_states = std::ssize(kept_states(plan.payload)),
                               .payload = plan.payload,
                               .ranks_per_node = network.mesh.ranks_per_node(),
                               .splits = 1};
  if (!plan.memory)
    result.recompute = choose_recompute(network, memory_setting, world.node().size());
  const MemoryUse chosen = result.recompute && result.recompute->recomputes ? MemoryUse::kRecomputed
                                                                            : MemoryUse::kShared;
  memory_setting.use = plan.memory.value_or(chosen);
  if (!simulation::kOn) require_memory_of_run(network, memory_setting);
  MeasuredTraining training(network, plan, result.local_batch, memory_setting.use,
                            machine == nullptr);
  result.implementations = training.executor().implementations();
  measure_steps(network, training, plan, result);
  if (plan.evaluate) {
    std::vector<double> rates(kEvaluationPasses);
    for (double& rate : rates) rate = training.evaluate_pass(plan.steps);
    result.evaluated_per_s = spread_of(rates);
  }
  const std::int64_t memory = peak_memory_bytes();
  result.max_memory_bytes = world.max(memory);
  result.sum_memory_bytes = world.sum(memory);
  if (!simulation::kOn && world.size() > 1 && plan.network) result.network = training.network();
  return result;
}

}  // namespace halomesh
