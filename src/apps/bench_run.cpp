// One mesh in one precision, measured: see bench_run.hpp.
#include "src/apps/bench_run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "runtime/direct_loader.hpp"
#include "runtime/evaluator.hpp"
#include "runtime/training_step.hpp"
#include "src/apps/bench_input.hpp"
#include "src/apps/model_options.hpp"
#include "src/apps/network_on_mesh.hpp"
#include "src/apps/process_memory.hpp"
#include "trace.hpp"

namespace halomesh {
namespace {

constexpr float kRate = 1e-4f;  // small: random targets must not drive the weights anywhere
constexpr std::size_t kEventsOfAStep = 1 << 16;
constexpr std::size_t kEvaluationPasses = 3;

/// Training steps on generated samples, each with its trace.
class MeasuredTraining {
 public:
  MeasuredTraining(NetworkOnMesh& network, const BenchPlan& plan, std::int64_t local,
                   Reduction reduction)
      : network_(network),
        seed_(plan.seed),
        local_(local),
        trace_(kEventsOfAStep),
        training_(network.mesh, network.model, network.geometry, network.parameters, local, &trace_,
                  reduction),
        loader_(
            std::make_unique<GeneratedReader>(plan.seed, network.model.input()),
            {network.model.input(), executor().input_span(), executor().output().span.extent(kC),
             local, network.model.input_type(), network.mesh.replica()}) {
    loader_.append(order(plan.warm_up + plan.steps).validation());
  }

  /// Trains one step and returns its loss; its intervals are in trace().
  double step();
  /// Samples a second of all ranks in one pass of so many steps.
  double evaluate_pass(std::int64_t steps);

  const Trace& trace() const { return trace_; }
  const Executor& executor() const { return training_.executor(); }
  std::int64_t reduced_bytes() const { return training_.reducer().reduced_bytes(); }

 private:
  SampleOrder order(std::int64_t steps) const {
    const std::int64_t replicas = network_.mesh.shape().replicas;
    return {Shuffle::kGlobal, seed_, steps * replicas * local_, replicas, local_};
  }

  NetworkOnMesh& network_;
  std::uint64_t seed_;
  std::int64_t local_, step_ = 0;
  Trace trace_;
  TrainingStep training_;
  DirectLoader loader_;
};

double MeasuredTraining::step() {
  trace_.clear();
  const TraceScope whole(&trace_, kStepName, "");
  const double loss = training_.run(loader_, {seed_, step_++, SgdOptions{}, kRate});
  const TraceScope scope(&trace_, "reduction", "");
  return network_.mesh.world().sum(loss);
}

double MeasuredTraining::evaluate_pass(std::int64_t steps) {
  const SampleOrder samples = order(steps);
  const Evaluation result = evaluate(network_.mesh, training_.executor(), loader_, samples);
  trace_.clear();
  return static_cast<double>(result.samples) / result.seconds;
}

/// Rank 0's phases on every rank: part 0 works in all layers.
std::vector<PhaseKey> common_keys(const Comm& world, const PhaseTimes& times) {
  nlohmann::json list = nlohmann::json::array();
  for (const PhaseKey& key : times.keys()) list.push_back({key.name, key.layer});
  std::vector<PhaseKey> keys;
  for (const auto& item : nlohmann::json::parse(world.broadcast(list.dump(), 0)))
    keys.push_back({item.at(0).get<std::string>(), item.at(1).get<std::string>()});
  return keys;
}

WaitShare share_of(const Comm& world, double waited_s, double step_s) {
  const double share = waited_s / step_s;
  return {world.sum(share) / world.size(), world.max(share)};
}

/// Merges this rank's phases with those of all others.
void merge_phases(const Comm& world, const PhaseTimes& times, const StepWork& work,
                  double reduced_bytes, BenchResult& result) {
  const auto steps = static_cast<double>(result.steps);
  const std::vector<PhaseKey> keys = common_keys(world, times);
  std::vector<double> seconds = times.seconds_of(keys);
  for (double& s : seconds) s /= steps;
  const double step_s = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  std::array<double, 6> of_kind{};
  bool reduction_seen = false;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    PhaseRow row{keys[i], kind_of(keys[i].name), 0, world.max(seconds[i]), work.of(keys[i])};
    if (row.kind == PhaseKind::kReductionWait && !reduction_seen) {
      row.work.received_bytes = reduced_bytes / steps;
      reduction_seen = true;
    }
    std::array<double, 4> sums = {seconds[i], row.work.flops, row.work.memory_bytes,
                                  row.work.received_bytes};
    world.sum(sums);
    row.mean_s = sums[0] / world.size();
    row.work = {sums[1], sums[2], sums[3]};
    of_kind[static_cast<std::size_t>(row.kind)] += seconds[i];
    result.flops += row.work.flops;
    result.rows.push_back(row);
  }
  const auto waited = [&](PhaseKind kind) { return of_kind[static_cast<std::size_t>(kind)]; };
  result.mean_step_s = world.sum(step_s) / world.size();
  result.halo_wait = share_of(world, waited(PhaseKind::kHaloWait), step_s);
  result.reduction_wait = share_of(world, waited(PhaseKind::kReductionWait), step_s);
  result.input_wait = share_of(world, waited(PhaseKind::kInputWait), step_s);
  result.exchange_wait =
      share_of(world, waited(PhaseKind::kHaloWait) + waited(PhaseKind::kReductionWait), step_s);
}

void measure_steps(const Comm& world, MeasuredTraining& training, const BenchPlan& plan,
                   const StepWork& work, BenchResult& result) {
  for (std::int64_t s = 0; s < plan.warm_up; ++s) training.step();
  const std::int64_t reduced_before = training.reduced_bytes();
  PhaseTimes times;
  std::vector<double> seconds;
  for (std::int64_t s = 0; s < plan.steps; ++s) {
    result.last_loss = training.step();
    times.add(training.trace().events());
    const TraceEvent& whole = training.trace().events().back();
    seconds.push_back(static_cast<double>(whole.end_ns - whole.begin_ns) * 1e-9);
  }
  require(training.trace().dropped() == 0, "a step with more intervals than can be kept");
  require(std::isfinite(result.last_loss), cat("the loss is ", result.last_loss),
          "report it with the options of the run");
  std::vector<double> rates;
  for (double& s : seconds) {
    s = world.max(s);
    rates.push_back(static_cast<double>(result.setting.batch) / s);
  }
  result.step_s = spread_of(seconds);
  result.samples_per_s = spread_of(rates);
  merge_phases(world, times, work, static_cast<double>(training.reduced_bytes() - reduced_before),
               result);
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  require(!values.empty(), "the spread of no value");
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return {(values[(n - 1) / 2] + values[n / 2]) / 2, values.front(), values.back()};
}

BenchResult run_case(const Comm& world, const Options& options, const BenchPlan& plan,
                     const BenchCase& setting) {
  BenchResult result;
  result.setting = setting;
  result.steps = plan.steps;
  result.local_batch = local_batch(setting.batch, setting.mesh);
  result.memory_of_this_run = world.max(std::int64_t{reset_peak_memory() ? 0 : 1}) == 0;
  NetworkOnMesh network(world, setting.mesh.parts, options, precision_named(setting.precision));
  network.parameters.initialize(plan.seed);
  result.parameters = network.geometry.parameter_count();
  result.reduction = reduction_named(plan.reduction, network.mesh);
  MeasuredTraining training(network, plan, result.local_batch, result.reduction);
  result.implementations = training.executor().implementations();
  const StepWork work(network.model, network.geometry, network.mesh.part(), result.local_batch);
  measure_steps(world, training, plan, work, result);
  if (plan.evaluate) {
    std::vector<double> rates(kEvaluationPasses);
    for (double& rate : rates) rate = training.evaluate_pass(plan.steps);
    result.evaluated_per_s = spread_of(rates);
  }
  const std::int64_t memory = peak_memory_bytes();
  result.max_memory_bytes = world.max(memory);
  result.sum_memory_bytes = world.sum(memory);
  return result;
}

}  // namespace halomesh
