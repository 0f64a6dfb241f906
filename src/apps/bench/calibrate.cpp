// SPDX-License-Identifier: Apache-2.0
// Measures a machine: see calibrate.hpp.
#include "src/apps/bench/calibrate.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>

#include "counted.hpp"
#include "runtime/data/open_dataset.hpp"
#include "runtime/log/progress.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/mpi/quiet_barrier.hpp"
#include "runtime/posix/free_space.hpp"
#include "runtime/posix/read_counts.hpp"
#include "runtime/step/reduction.hpp"
#include "src/apps/bench/bench_options.hpp"
#include "src/apps/bench/bench_run.hpp"
#include "src/apps/bench/sum_speed.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/nn/onednn/library.hpp"
#include "src/nn/pack.hpp"
#include "src/nn/parameters.hpp"

namespace halomesh {
namespace {

constexpr double kKernelSeconds = 0.01;  // for the passes of one case, in each round
constexpr int kRounds = 3;               // rounds over all cases
constexpr double kStepSeconds = 8;       // for all steps together
constexpr double kShareOfMemory = 0.6;   // the share of available memory that measurements may use

class Clock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// The median time of several calls of `work`, in seconds.
template <class Work>
double seconds_of(Work work) {
  std::vector<double> seconds(15);
  work();
  for (double& each : seconds) {
    const Clock clock;
    work();
    each = clock.seconds();
  }
  return spread_of(seconds).median;
}

/// Measures adding and packing, in seconds, on this rank while all others do so, too.
void measure_memory(const Comm& world, MachineRecord& record) {
  const Box box{{0, 0, 0, 0}, {32, 64, 64, 32}};
  Box halo = box;
  halo.hi[kH] = halo.lo[kH] + 2;
  Box corner = halo;  // packed by one thread
  corner.hi[kD] = corner.lo[kD] + kSharedCopyBytes / 4 / (halo.volume() / halo.extent(kD));
  Tensor tensor(box, 1);
  AlignedBuffer<float> dense(box.volume());
  const auto per_byte = [&](double seconds, const Box& moved) {
    return world.sum(seconds) / world.size() / static_cast<double>(moved.volume() * 4);
  };
  world.barrier();
  const double packing = seconds_of([&] { pack(tensor.view(), halo, dense.data()); });
  world.barrier();
  const double adding = seconds_of([&] { unpack_add(dense.data(), box, tensor.view()); });
  world.barrier();
  const double by_one = seconds_of([&] { pack(tensor.view(), corner, dense.data()); });
  world.barrier();
  int joined = 0;
  const double team = seconds_of([&] {
#pragma omp parallel reduction(+ : joined)
    ++joined;
  });
  record.copy.team_s = joined > 0 ? world.sum(team) / world.size() : 0;
  record.copy.core_s_per_byte = per_byte(by_one, corner);
  // Noise can make the team's share exceed the whole, so the rate has a lower bound.
  record.copy.s_per_byte = std::max(
      per_byte(packing, halo) - record.copy.team_s / static_cast<double>(halo.volume() * 4),
      0.1 * per_byte(packing, halo));
  record.add_s_per_byte = per_byte(adding, box);
}

LinkRecord measure_link(const Comm& world, const RankPair& pair) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = 8; bytes <= 8 << 20; bytes *= 4) sizes.push_back(bytes);
  LinkRecord link;
  link.times = ping_pong(world, pair, sizes);
  link.fit = fit_link(link.times);
  link.eager_bytes = eager_limit(world, pair);
  return link;
}

/// The rank counts 2, 4, 8, 16, 64, 256, ... and `ranks` itself.
std::vector<int> rank_counts(int ranks) {
  std::vector<int> counts;
  for (int count = 2; count < ranks; count *= count < 16 ? 2 : 4) counts.push_back(count);
  counts.push_back(ranks);
  return counts;
}

/// Times sums of `bytes` over the first `ranks` ranks in every way, while the others sleep and
/// return nothing. Collective over `world`.
std::vector<SumTime> sum_times(const Comm& world, int ranks, std::int64_t bytes) {
  constexpr int kTries = 3;
  const Comm part = world.split(world.rank() < ranks ? 0 : -1, world.rank());
  std::vector<SumTime> times;
  if (!part.is_null())
    for (SumSpeed& each :
         measure_sums(ProcessMesh(part, {ranks, {1, 1, 1}}), std::span(&bytes, 1), kTries))
      times.push_back({ranks, each.bytes, std::move(each.way), each.median_s});
  quiet_barrier(world);
  return times;
}

std::int64_t memory_per_rank(const RankBinding& binding) {
  return static_cast<std::int64_t>(kShareOfMemory * static_cast<double>(free_memory().bytes) /
                                   binding.ranks_on_node);
}

/// Bytes of a training step of the whole network on one rank.
std::int64_t step_memory(const Model& model) {
  const ModelGeometry geometry = model.geometry({});
  const std::vector<DataType> types = model.types();
  std::int64_t bytes = 3 * 4 * geometry.parameter_count();
  for (std::size_t t = 0; t < types.size(); ++t)
    bytes += 2 * geometry.tensors()[t].shape.volume() * size_of(types[t]);
  return bytes;
}

/// The times of one rank's steps, in the order in which they ran.
class StepTimes {
 public:
  void add(const std::vector<double>& run) {
    for (std::size_t i = 1; i < run.size(); ++i)
      squares_ += (run[i] - run[i - 1]) * (run[i] - run[i - 1]);
    pairs_ += static_cast<double>(run.size()) - 1;
    seconds_.insert(seconds_.end(), run.begin(), run.end());
  }
  std::int64_t count() const { return std::ssize(seconds_); }
  double median() const { return seconds_.empty() ? 0 : spread_of(seconds_).median; }
  /// The standard deviation between successive steps (the root of half the mean squared difference,
  /// as in the Allan variance) over the median. It ignores a machine that slows down for some
  /// seconds, which slows all ranks alike.
  double relative_deviation() const {
    return pairs_ < 1 ? 0 : std::sqrt(squares_ / (2 * pairs_)) / median();
  }

 private:
  std::vector<double> seconds_;
  double squares_ = 0, pairs_ = 0;
};

/// The options of one calibration, and its results so far.
class Calibration {
 public:
  Calibration(const Comm& world, const Options& options, const RankBinding& binding);

  MachineRecord run(const MachinePeak& peak_of_all);

 private:
  void say(const std::string& line) const {
    if (world_.rank() == 0) std::cout << line << std::endl;
  }
  double left_s() const { return budget_s_ - clock_.seconds(); }
  void network();
  void input();
  void steps_and_kernels();
  bool step_fits(const Model& model);
  void steps();
  void kernel_round(const std::vector<LayerCase>& cases, int round, KernelTimes& times);
  void spread();
  void compare_step(const Model& model);

  const Comm& world_;
  const Options& options_;
  const RankBinding& binding_;
  Clock clock_;
  double budget_s_;
  Progress progress_;  // measured kernels
  DataType precision_;
  std::int64_t steps_at_once_ = -1;  // unknown so far
  double steps_took_s_ = 0;
  StepTimes step_times_;
  MachineRecord record_;
};

Calibration::Calibration(const Comm& world, const Options& options, const RankBinding& binding)
    : world_(world),
      options_(options),
      binding_(binding),
      budget_s_(options.get<double>("calibrate-seconds")),
      precision_(precision_named(options.get<std::string>("precision"))) {
  record_.name = world.broadcast(binding.host, 0);
  record_.memory_bytes = describe_node().memory_bytes;
  record_.cpu = binding.cpu_model;
  record_.isa = cpu_isa_name();
  record_.cores = binding.node_cores;
  record_.ranks_per_node = static_cast<int>(world.max(std::int64_t{binding.ranks_on_node}));
  record_.threads = binding.threads;
  record_.precision = precision_;
  record_.ranks = world.size();
  record_.shares_cores =
      world.max(std::int64_t{binding.sharing.threads > binding.sharing.cores ? 1 : 0}) > 0;
}

void Calibration::network() {
  const NodePlace place = node_place(world_, world_.split_by_node());
  record_.nodes = place.nodes;
  if (world_.size() == 1) {
    say("network: not measured on one rank; start two or more, on two nodes for both kinds of "
        "links");
    return;
  }
  record_.network = measure_machine_network(world_, place, left_s() / 4);
  const auto link = [&](const char* name, const std::optional<LinkRecord>& one) {
    if (!one) return say(fmt::format("network {}: no two ranks to measure it", name));
    say(fmt::format("network {}: latency {:.2f} us, {:.2f} GB/s, eager up to {} bytes", name,
                    one->fit.latency_s * 1e6, 1e-9 / std::max(one->fit.s_per_byte, 1e-15),
                    one->eager_bytes));
  };
  link("within a node", record_.network->within_node);
  link("between nodes", record_.network->between_nodes);
  const auto& sums = record_.network->sums;
  const SumTime& largest = *std::find_if(sums.rbegin(), sums.rend(), [](const SumTime& each) {
    return each.algorithm == name_of(Reduction::kAuto);
  });
  say(fmt::format("sums and barriers: {} measurements; {:.1f} MB over {} by {} in {:.2f} ms",
                  sums.size() + record_.network->barriers.size(),
                  static_cast<double>(largest.bytes) * 1e-6, counted(largest.ranks, "rank"),
                  largest.algorithm, largest.seconds * 1e3));
}

void Calibration::input() {
  const auto directory = options_.get<std::string>("data");
  if (directory.empty()) return say("input: not measured without --data");
  const NetworkSpec spec = network_spec(options_);
  const Model model = make_model(spec);
  const Shape shape = model.input();
  const Shape output = model.geometry({1, 1, 1}).tensors().back().shape;
  const auto set =
      open_dataset(world_, directory, "train", shape, targets_of(*spec.make_loss(output), output));
  const std::unique_ptr<SampleReader> reader = set->reader();
  Tensor sample(Box::whole(shape), 1, model.input_type());
  Tensor targets(Box::whole(set->target_shape()), 1, set->target_type());
  const double limit_s = std::min(4.0, left_s() / 8);
  const Clock clock;
  const ReadCounts before = read_counts();
  std::int64_t samples = 0;
  std::vector<std::string> errors = on_every_rank(world_, [&] {
    for (; samples == 0 || clock.seconds() < limit_s; ++samples)
      reader->read((world_.rank() + samples * world_.size()) % set->size(), sample.any_view(),
                   targets.any_view());
    return std::string();
  });
  const ReadCounts read = read_counts() - before;
  const auto voxels = static_cast<double>(samples * shape.volume() * size_of(model.input_type()));
  const double decode_s = world_.sum(clock.seconds() - read.seconds());
  const double read_s = world_.sum(read.seconds());
  InputRates rates;
  rates.decode_bytes_per_second = decode_s > 0 ? world_.sum(voxels) / decode_s : 0;
  rates.read_bytes_per_second =
      read_s > 0 ? world_.sum(static_cast<double>(read.bytes)) / read_s : 0;
  record_.input = rates;
  say(fmt::format("input, per rank: reads {:.1f} MB/s, decodes {:.1f} MB/s of voxels",
                  rates.read_bytes_per_second * 1e-6, rates.decode_bytes_per_second * 1e-6));
}

bool Calibration::step_fits(const Model& model) {
  const std::int64_t needed = step_memory(model);
  if (world_.max(std::int64_t{needed > memory_per_rank(binding_) ? 1 : 0}) == 0) return true;
  say(fmt::format("spread of steps: not measured: a step of one rank takes {:.1f} GB",
                  static_cast<double>(needed) * 1e-9));
  return false;
}

// Each rank runs some steps alone, all ranks at the same time. Collective.
void Calibration::steps() {
  const bool works = !record_.shares_cores || world_.rank() == 0;
  const Comm alone = world_.split(world_.rank(), 0);
  const Clock clock;
  if (works) {
    BenchPlan plan;
    plan.warm_up = 1;
    plan.steps = 2;
    const BenchCase setting{{}, options_.get<std::string>("precision"), 1};
    if (steps_at_once_ < 0) {
      const double limit_s = std::min(kStepSeconds, left_s() / 6);
      const double fit = limit_s / run_case(alone, options_, plan, setting).step_s.median;
      constexpr double kLeast = 5, kMost = 50;
      steps_at_once_ = fit < kLeast ? 0 : std::int64_t(std::min(fit, kMost)) / (kRounds + 1) + 1;
    }
    plan.steps = steps_at_once_;
    if (plan.steps > 0) step_times_.add(run_case(alone, options_, plan, setting).seconds);
  }
  quiet_barrier(world_);
  steps_took_s_ = clock.seconds();
}

void Calibration::spread() {
  const double working = world_.sum(step_times_.count() > 0 ? 1.0 : 0.0);
  if (working == 0) return say("spread of steps: not measured: five steps take too long");
  StepSpread spread;
  spread.steps = world_.sum(step_times_.count());
  spread.median_s = world_.sum(step_times_.median()) / working;
  spread.relative_stddev = world_.sum(step_times_.relative_deviation()) / working;
  if (const std::string problem = spread.problem(); !problem.empty())
    return say("spread of steps: " + problem);
  record_.step_spread = spread;
  say(fmt::format("spread of {} steps of {:.1f} ms: relative standard deviation {:.2f}%",
                  spread.steps, spread.median_s * 1e3, spread.relative_stddev * 100));
}

// Times this rank's cases once.
void Calibration::kernel_round(const std::vector<LayerCase>& cases, int round, KernelTimes& times) {
  const auto workers = static_cast<std::size_t>(record_.shares_cores ? 1 : world_.size());
  const auto mine = static_cast<std::size_t>(world_.rank());
  const double reserved_s = (kRounds - round) * steps_took_s_;
  if (mine >= workers) return;
  const std::size_t share = (cases.size() + workers - 1 - mine) / workers;
  const std::size_t before = static_cast<std::size_t>(round) * share;
  if (round == 0)
    progress_ = Progress("kernels", "cases", std::int64_t(kRounds * share), world_.rank() == 0);
  KernelTimes now;
  double longest_s = 0;
  for (std::size_t i = mine, done = 0; i < cases.size(); i += workers, ++done) {
    progress_.update(std::int64_t(before + done));
    if ((done > 0 || round > 0) && left_s() < 1 + longest_s + reserved_s) break;
    const Clock clock;
    measure(cases[i], options_, precision_, kKernelSeconds, now);
    longest_s = std::max(longest_s, clock.seconds());
  }
  times.add_round(now);
}

// Steps and kernels alternate, so that a slowdown of some seconds affects both.
void Calibration::steps_and_kernels() {
  const Model model = make_model(options_, precision_);
  std::vector<LayerCase> cases =
      layer_cases(model, part_grids(options_.get<std::int64_t>("calibrate-parts")),
                  options_.get<std::int64_t>("calibrate-batch"), record_.threads);
  const std::int64_t memory = -world_.max(-memory_per_rank(binding_));  // the minimum over ranks
  const auto passes = [](const std::vector<LayerCase>& some) {
    std::int64_t count = 0;
    for (const LayerCase& one : some) count += std::ssize(one.passes);
    return count;
  };
  const std::int64_t all = passes(cases);
  cases.erase(std::remove_if(cases.begin(), cases.end(),
                             [&](const LayerCase& one) { return one.memory > memory; }),
              cases.end());
  record_.kernels_too_large = all - passes(cases);
  const bool fits = step_fits(model);
  if (fits) steps();
  KernelTimes mine;
  for (int round = 0; round < kRounds; ++round) {
    world_.barrier();
    kernel_round(cases, round, mine);
    quiet_barrier(world_);
    if (fits) steps();
  }
  progress_.finish();
  if (fits) spread();
  for (const std::string& text : world_.gather(to_text(mine.kernels)))  // on rank 0
    for (MeasuredKernel& kernel : kernels_of(text)) record_.kernels.push_back(std::move(kernel));
  record_.kernels_left_out = passes(cases) - std::ssize(record_.kernels);
  if (const std::int64_t polls = world_.sum(mine.polls); polls > 0)
    record_.poll_s = world_.sum(mine.computed_s) / static_cast<double>(polls);
  if (world_.rank() == 0) compare_step(model);
  say(fmt::format("kernels: {} cases measured{}{}", record_.kernels.size(),
                  record_.kernels_left_out > 0
                      ? fmt::format(", {} left out for lack of time", record_.kernels_left_out)
                      : "",
                  record_.kernels_too_large > 0
                      ? fmt::format(", {} need too much memory", record_.kernels_too_large)
                      : ""));
}

// Compares the step that spread() has measured, one sample on one rank, with the sum of its
// kernels.
void Calibration::compare_step(const Model& model) {
  if (!record_.step_spread || record_.kernels.empty()) return;
  KernelTable table;
  table.rates = {record_.peak.of(name_of(precision_)), 1, record_.peak.triad};
  for (const MeasuredKernel& each : record_.kernels) table.add(each.call, each.seconds);
  const double kernels_s = kernels_of_step(model, table, 1, record_.threads);
  const double update_s =
      5 * 4.0 * static_cast<double>(model.geometry({}).parameter_count()) / record_.peak.triad;
  const double factor = (record_.step_spread->median_s - update_s) / kernels_s;
  constexpr double kLeast = 0.8, kMost = 1.5;  // outside this range, something else used the cores
  if (kernels_s == 0 || !(factor > kLeast && factor < kMost)) return;
  record_.step_spread->kernel_time_factor = factor;
  say(fmt::format("a step takes {:.2f} times what its kernels took alone", factor));
}

MachineRecord Calibration::run(const MachinePeak& peak_of_all) {
  if (record_.shares_cores && world_.rank() == 0)
    std::cerr << "WARNING: ranks share cores: times of messages and sums include waiting for a "
                 "core, and one rank measures all kernels; start at most one rank x thread per core"
              << std::endl;
  record_.peak = {peak_of_all.fp32 / world_.size(), peak_of_all.bf16 / world_.size(),
                  peak_of_all.triad / world_.size()};
  measure_memory(world_, record_);
  network();
  input();
  steps_and_kernels();
  return record_;
}

}  // namespace

NetworkRecord measure_machine_network(const Comm& world, const NodePlace& place, double seconds) {
  const Clock clock;
  NetworkRecord record;
  const auto rank_at = [&](int node, int number) {
    const bool mine = place.node == node && place.place == number;
    return static_cast<int>(world.max(std::int64_t{mine ? world.rank() : -1}));
  };
  const int first = rank_at(0, 0);
  if (const int other = rank_at(0, 1); other >= 0)
    record.within_node = measure_link(world, {first, other});
  if (const int other = rank_at(1, 0); other >= 0) {
    record.between_nodes = measure_link(world, {first, other});
    record.injection_s_per_byte = injection_s_per_byte(world, place.node, place.place, 4 << 20);
  }
  record.poll_cost_s = world.max(poll_cost_s(world));
  const std::vector<std::int64_t> sizes{4, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 22 << 20};
  const std::vector<int> counts = rank_counts(world.size());
  for (const int ranks : counts) {
    const double end_s = clock.seconds() + seconds / static_cast<double>(counts.size());
    record.barriers.emplace_back(
        ranks, median_seconds(world, ranks, [](const Comm& part) { part.barrier(); }));
    for (const std::int64_t bytes : sizes) {
      if (bytes != sizes.front() && world.max(clock.seconds() - end_s) > 0) break;
      for (SumTime& each : sum_times(world, ranks, bytes)) record.sums.push_back(std::move(each));
    }
  }
  return record;
}

MachineRecord calibrate(const Comm& world, const Options& options, const RankBinding& binding,
                        const MachinePeak& peak_of_all) {
  return Calibration(world, options, binding).run(peak_of_all);
}

}  // namespace halomesh
