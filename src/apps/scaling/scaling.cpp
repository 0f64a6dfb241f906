// SPDX-License-Identifier: Apache-2.0
// The command `scaling`: strong and weak scaling on several numbers of ranks in one job.
#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "counted.hpp"
#include "printable.hpp"
#include "runtime/log/json_bytes.hpp"
#include "runtime/log/metrics.hpp"
#include "runtime/machine/binding.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/mpi/quiet_barrier.hpp"
#include "runtime/posix/input_file.hpp"
#include "src/apps/bench/bench_run.hpp"
#include "src/apps/forecast/machine_file.hpp"
#include "src/apps/forecast/step_forecast.hpp"
#include "src/apps/launch/analysis.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/output_directory.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/launch/run_record.hpp"
#include "src/apps/launch/version.hpp"
#include "src/apps/options/fact_file.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/padding_option.hpp"
#include "src/apps/options/scaling_options.hpp"
#include "src/apps/plan/site_profile.hpp"
#include "src/apps/scaling/scaling_plan.hpp"
#include "src/apps/scaling/scaling_record.hpp"
#include "src/apps/scaling/scaling_table.hpp"

namespace halomesh {
namespace {

struct Predictions {
  std::map<std::string, PredictedStep> steps;
  std::string basis;  ///< the basis of the predictions; empty without a machine
};

/// Rank 0's settings, on every rank: nodes may differ.
StudySettings settings_of(const Comm& world, const Options& options, const RankBinding& binding) {
  StudySettings settings = options.decisive_settings();
  settings["threads"] = std::to_string(binding.threads);
  settings["ranks-per-node"] = std::to_string(binding.ranks_on_node);
  settings["cpu"] = binding.cpu_model;
  settings["program version"] = version();
  return parse_json(world.broadcast(dump_json(nlohmann::json(settings)), 0)).get<StudySettings>();
}

std::filesystem::path jobscripts_of(const std::string& machine) {
  if (is_fact_path(machine)) return {};
  return find_jobscripts(std::filesystem::read_symlink("/proc/self/exe"));
}

Predictions predict(const Options& options, const RankBinding& binding, const Model& model,
                    const std::vector<ScalingCase>& cases) {
  Predictions predictions;
  const auto name = options.get<std::string>("machine");
  if (name.empty()) return predictions;
  Machine machine = load_machine(name, jobscripts_of(name),
                                 precision_named(options.get<std::string>("precision")));
  ForecastOptions forecast;
  forecast.threads = binding.threads;
  std::array<double, 3> kernel_shares{};  // means over the cases, by source
  for (const ScalingCase& one : cases) {
    machine.derive(std::min<std::int64_t>(one.mesh.ranks(), binding.ranks_on_node));
    const StepForecast step = forecast_step(machine, model, model.geometry(one.mesh.parts),
                                            one.mesh, local_batch(one.batch, one.mesh), forecast);
    predictions.steps[one.name()] = {step.step_s, step.low_s, step.high_s};
    for (std::size_t i = 0; i < kernel_shares.size(); ++i)
      kernel_shares[i] += step.kernel_shares[i] / static_cast<double>(cases.size());
  }
  predictions.basis = fmt::format("predicted for {}: kernel times {} at {:.3g} of the peak in {}\n",
                                  name, describe_kernel_shares(kernel_shares),
                                  machine.kernels.rates.efficiency, name_of(machine.precision));
  if (machine.cpu != binding.cpu_model)
    predictions.basis +=
        fmt::format("note: {} describes {}, not the {} of this job\n", name,
                    machine.cpu.empty() ? "an unknown CPU" : machine.cpu, binding.cpu_model);
  for (const std::string& note : machine.notes) predictions.basis += "note: " + note + '\n';
  return predictions;
}

/// One study. Rank 0 keeps the record; the others only know which cases have been measured.
class Study {
 public:
  Study(const Comm& world, const Options& options);
  int run();

 private:
  void resume();
  /// Measures the case on the first ranks while the others sleep. Collective.
  void measure(const ScalingCase& one, std::int64_t round);
  bool no_time_left() const;
  void draw_figures() const;
  nlohmann::ordered_json json() const { return record_.json(plan_.cases, predictions_.steps); }

  const Comm& world_;
  const Options& options_;
  const Options network_options_;  // includes the network's input
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double longest_s_ = 0;
  RankBinding binding_;
  Model model_;
  ScalingPlan plan_;
  std::filesystem::path file_;
  ScalingRecord record_;
  Predictions predictions_;
};

Study::Study(const Comm& world, const Options& options)
    : world_(world),
      options_(options),
      network_options_(with_padded_input(options)),
      binding_(bind_threads(world)),
      model_(make_model(network_options_, precision_named(options.get<std::string>("precision")))),
      plan_(plan_scaling(options, model_, world.size())),
      file_(options.get<std::string>("json")),
      record_(program_record(world, binding_, options), settings_of(world, options, binding_)),
      predictions_(world.rank() == 0 ? predict(options, binding_, model_, plan_.cases)
                                     : Predictions()) {
  if (options.get<std::string>("json").empty())
    throw UsageError("--json is empty", "name the file of the measurements, e.g. scaling.json");
}

void Study::resume() {
  if (options_.get<bool>("restart")) return;
  const std::string text = on_first_rank(
      world_, [&] { return std::filesystem::exists(file_) ? read_input_file(file_) : ""; });
  if (text.empty()) return;
  record_.resume(text, file_);
  if (world_.rank() == 0)
    std::cout << "resuming: " << record_.measurements() << " measurements in "
              << printable(file_.string()) << std::endl;
}

void Study::measure(const ScalingCase& one, std::int64_t round) {
  const auto begin = std::chrono::steady_clock::now();
  BenchPlan plan;
  plan.steps = options_.get<std::int64_t>("steps");
  plan.warm_up = options_.get<std::int64_t>("warm-up");
  plan.seed = options_.get<std::uint64_t>("seed");
  plan.reduction = reduction_named(options_.get<std::string>("reduction"));
  plan.network = false;
  plan.pads = !describe_padding(options_).empty();
  const BenchCase setting{one.mesh, options_.get<std::string>("precision"), one.batch};
  BenchResult result;
  const Comm part = world_.split(world_.rank() < one.mesh.ranks() ? 0 : -1, world_.rank());
  if (!part.is_null()) result = run_case(part, network_options_, plan, setting);
  quiet_barrier(world_);
  record_.add(one, round, result);  // only rank 0's record matters
  write_record(world_, file_, world_.rank() == 0 ? json() : nlohmann::ordered_json());
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  longest_s_ = std::max(longest_s_, taken.count());
  if (world_.rank() == 0)
    std::cout << fmt::format("round {}: {}: {:.2f} ms per step", round + 1, one.name(),
                             result.step_s.median * 1e3)
              << std::endl;
}

bool Study::no_time_left() const {
  const auto limit = options_.get<double>("wall-limit");
  const std::chrono::duration<double> used = std::chrono::steady_clock::now() - begin_;
  return world_.max(std::int64_t{limit > 0 && used.count() + 1.5 * longest_s_ > limit ? 1 : 0}) > 0;
}

void Study::draw_figures() const {
  const auto directory = options_.get<std::string>("figures");
  require(analysis_succeeds({"figures", file_.string(), directory}),
          "the figures could not be drawn", "halomesh report draws them as well");
}

int Study::run() {
  const auto directory = options_.get<std::string>("figures");
  check_output_file(world_, options_, "json");
  if (!directory.empty())
    on_first_rank(world_, [&] {
      std::error_code failure;
      std::filesystem::create_directories(directory, failure);
      require(!failure, fmt::format("cannot create {}: {}", directory, failure.message()),
              "give another --figures directory");
      require(analysis_succeeds({"figures"}), "the figures cannot be drawn (see above)",
              "leave out --figures; halomesh report draws them later");
      return std::string();
    });
  resume();
  if (world_.rank() == 0) {
    if (const std::string padding = describe_padding(options_); !padding.empty())
      std::cout << padding << '\n';
    std::cout << fmt::format("{} of {} in {}, {} per rank\n", options_.get<std::string>("model"),
                             to_text(model_.input()), options_.get<std::string>("precision"),
                             counted(binding_.threads, "thread"));
    print_plan(std::cout, plan_, world_.size());
  }
  for (std::int64_t round = 0; round < options_.get<std::int64_t>("repeats"); ++round)
    for (const ScalingCase& one : plan_.cases) {
      if (record_.has(one, round)) continue;
      if (no_time_left()) {
        if (world_.rank() == 0)
          std::cout << "stopped before --wall-limit; run again to go on" << std::endl;
        return kExitStopped;
      }
      measure(one, round);
    }
  if (world_.rank() != 0) return kExitDone;
  for (const bool strong : {true, false})
    print_summaries(std::cout, record_.summaries(plan_.cases, strong, predictions_.steps), strong);
  std::cout << predictions_.basis;
  write_run_record(file_, json());
  std::cout << "measurements in " << printable(file_.string()) << std::endl;
  if (!directory.empty()) draw_figures();
  return kExitDone;
}

}  // namespace

int run_scaling(int argc, char** argv) {
  Options options = scaling_options();
  return run_parallel(argc, argv, options,
                      [&](const Comm& world) { return Study(world, options).run(); });
}

}  // namespace halomesh
