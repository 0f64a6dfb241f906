// SPDX-License-Identifier: Apache-2.0
// Forecasts by `plan --machine`: see machine_plan.hpp.
#include "src/apps/plan/machine_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "counted.hpp"
#include "narrow.hpp"
#include "runtime/log/json_bytes.hpp"
#include "runtime/log/progress.hpp"
#include "runtime/machine/topology.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "src/apps/forecast/machine_file.hpp"
#include "src/apps/forecast/measured_runs.hpp"
#include "src/apps/forecast/mesh_search.hpp"
#include "src/apps/forecast/platform.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/train_options.hpp"
#include "src/apps/plan/memory_forecast.hpp"
#include "text_table.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kMachine = "machine";

std::string milliseconds(double seconds) { return fmt::format("{:.1f}", seconds * 1e3); }

// The duration of an epoch or a run as text.
std::string duration(double seconds) {
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.1f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string duration(const Range3& range) {
  return fmt::format("{} ({} to {})", duration(range.mid), duration(range.low),
                     duration(range.high));
}

double gib(std::int64_t bytes) { return static_cast<double>(bytes) * 0x1p-30; }

/// Options that decide a forecast, and have defaults.
constexpr std::array kDecisive = {"input",     "precision",        "optimizer",
                                  "recompute", "gradient-payload", "nodes",
                                  "batch",     "max-parts"};

/// The options that nobody gave, with the values that the forecast assumes.
std::map<std::string, std::string> assumed_options(const Options& options) {
  std::map<std::string, std::string> assumed;
  for (const auto& option : options.resolved())
    if (!options.is_given(option.first) &&
        std::find(kDecisive.begin(), kDecisive.end(), option.first) != kDecisive.end())
      assumed.insert(option);
  return assumed;
}

/// Chooses the samples of an epoch: as given, or of the published data of CosmoFlow, or 0: unknown.
void choose_samples(const Options& options, Workload& work) {
  const bool given = options.is_given("training-samples");
  const bool published = !given && options.get<std::string>("model") == "cosmoflow";
  if (!published) {
    work.training_samples = options.get<std::int64_t>("training-samples");
    work.validation_samples = 0;
  }
  if (options.is_given("validation-samples"))
    work.validation_samples = options.get<std::int64_t>("validation-samples");
}

/// The memory of the rank of `mesh` that needs most.
PartMemory memory_on(MemoryForecast& memory, const Machine& machine, const ModelGeometry& geometry,
                     const MeshForecast& f) {
  memory.setting().mesh = f.mesh;
  memory.setting().batch = f.local_batch;
  memory.setting().ranks_per_node = narrow<int>(machine.ranks_per_node());
  memory.setting().threads = machine.threads();
  if (f.recomputes) memory.setting().use = MemoryUse::kRecomputed;
  return memory.of_part(geometry, memory.largest(geometry));
}

Job job_of(const Options& options, const Model& model, const fs::path& jobscripts,
           std::string& basis) {
  Job job;
  job.nodes = options.get<std::int64_t>("nodes");
  const auto optimizer = chosen_optimizer(options);
  job.options.payload = payload_type(options);
  job.options.update_traffic = optimizer->traffic();
  job.options.memory = memory_use(options).value_or(MemoryUse::kShared);
  job.memory = [memory = std::make_shared<MemoryForecast>(options), use = memory_use(options)](
                   const Machine& machine, const ModelGeometry& geometry, const MeshShape& mesh,
                   std::int64_t batch) {
    MeshForecast f;
    f.mesh = mesh;
    f.local_batch = batch;
    memory->setting().use = use.value_or(MemoryUse::kShared);
    const std::int64_t kept = memory_on(*memory, machine, geometry, f).total();
    f.recomputes = true;
    return MemoryNeed{kept, use ? kept : memory_on(*memory, machine, geometry, f).total()};
  };
  job.max_parts = options.get<std::int64_t>("max-parts");
  job.work.batch = options.get<std::int64_t>("batch");
  choose_samples(options, job.work);
  job.work.sample_bytes = static_cast<double>(model.input().volume() * size_of(model.input_type()));
  if (options.is_given("target-epochs")) {
    const auto epochs = options.get<double>("target-epochs");
    job.work.epochs = {epochs, epochs, epochs};
    basis = "as given";
    return job;
  }
  const auto table = options.get<std::string>("epochs-table");
  if (table.empty() && options.get<std::string>("model") != "cosmoflow") {
    job.work.epochs = {1, 1, 1};
    basis = "how many it needs is not known: give --target-epochs";
    return job;
  }
  const EpochTable epochs(table.empty() ? jobscripts / "machines" / "epochs-cosmoflow.csv"
                                        : fs::path(table));
  job.work.epochs = epochs.epochs(job.work.batch);
  basis = epochs.basis(job.work.batch);
  return job;
}

void print_machine(std::ostream& out, const Machine& machine) {
  TextTable table({"number", "value", "unit", "origin", "source"}, "<><<<");
  for (const NumberRule& rule : number_rules()) {
    const auto known =
        std::find_if(machine.numbers.begin(), machine.numbers.end(),
                     [&](const MachineNumber& number) { return number.name == rule.name; });
    if (known != machine.numbers.end())
      table.add({rule.name, fmt::format("{:.6g}", known->value), rule.unit, name_of(known->origin),
                 known->source});
    else
      table.add({rule.name, fmt::format("{:.6g}", rule.fallback), rule.unit,
                 rule.fallback > 0 ? "assumed" : "unknown", "default of the program"});
  }
  out << table;
}

/// Times of epochs and runs are left out where the number of samples is `timed` by nobody.
void print_meshes(std::ostream& out, const std::vector<MeshForecast>& all, bool timed) {
  const auto span = [&](const auto& seconds) {
    return timed ? duration(seconds) : std::string("-");
  };
  TextTable table({"parts x replicas", "local", "step ms", "compute", "halo", "gather", "sum",
                   "straggler", "input", "epoch", "eval", "GiB/rank", "effic.", "time to solution"},
                  "<>>>>>>>>>>>><");
  for (const MeshForecast& f : all)
    table.add({to_string(f.mesh), fmt::format("{}", f.local_batch), milliseconds(f.step.step_s),
               milliseconds(f.step.compute_s), milliseconds(f.step.halo_s),
               milliseconds(f.step.gather_s), milliseconds(f.step.reduction_s),
               milliseconds(f.step.straggler_s), milliseconds(f.step.input_s), span(f.run.epoch_s),
               span(f.run.evaluation_s), fmt::format("{:.2f}", gib(f.memory_bytes)),
               fmt::format("{:.0f} %", 100 * f.efficiency),
               f.fits ? span(f.run.total_s) : std::string("does not fit the memory")});
  out << table;
  std::string recomputed;
  for (const MeshForecast& f : all)
    if (f.recomputes) recomputed += (recomputed.empty() ? "" : ", ") + to_string(f.mesh);
  if (!recomputed.empty())
    out << "Outputs are computed again (--recompute auto) on " << recomputed << ".\n";
}

void print_choice(std::ostream& out, const std::vector<MeshForecast>& all, bool timed) {
  const MeshForecast& best = all.front();
  out << fmt::format("\nBest: --parts {} with {}: {} ms a step, {:.2f} GiB per rank{}.\n",
                     to_string(best.mesh.parts), counted(best.mesh.replicas, "replica"),
                     milliseconds(best.step.step_s), gib(best.memory_bytes),
                     timed ? ", " + duration(best.run.total_s) : std::string());
  if (!timed)
    out << "  Samples of an epoch are not known: --training-samples N gives times of epochs and "
           "runs.\n";
  else
    out << fmt::format("  Staging {}, start {}, then epochs of {} and evaluations of {}.\n",
                       duration(best.run.staging_s), duration(best.run.startup_s),
                       duration(best.run.epoch_s), duration(best.run.evaluation_s));
  std::string ties;
  const auto other = std::find_if(all.begin() + 1, all.end(), [&](const MeshForecast& f) {
    return !f.fits || f.run.total_s.mid > (1 + kTie) * best.run.total_s.mid;
  });
  for (auto tie = all.begin() + 1; tie != other; ++tie)
    ties += (ties.empty() ? "" : ", ") + to_string(tie->mesh.parts);
  if (!ties.empty()) out << fmt::format("  Equal within {} %: {}.\n", 100 * kTie, ties);
  if (other == all.end() || !other->fits) {
    out << "  No other mesh fits the batch and the memory.\n";
    return;
  }
  out << fmt::format("Runner-up: --parts {}: {} ms a step, {:.1f} % longer{}.\n",
                     to_string(other->mesh.parts), milliseconds(other->step.step_s),
                     100 * (other->run.total_s.mid / best.run.total_s.mid - 1),
                     timed ? " to the solution" : "");
  for (const std::string& sentence : reasons(best, *other)) out << "  " << sentence << '\n';
}

void print_sensitivities(std::ostream& out, const std::vector<Sensitivity>& all, bool timed) {
  out << fmt::format(
      "\nAssumed numbers, each varied by -25 % and +25 % (change of the best mesh's {}):\n",
      timed ? "time to solution" : "step");
  std::vector<std::string> small;
  for (const Sensitivity& s : all) {
    const bool flips = !s.best_low.empty() || !s.best_high.empty();
    if (!flips && std::abs(s.change_low) < 0.005 && std::abs(s.change_high) < 0.005) {
      small.push_back(s.number);
      continue;
    }
    out << fmt::format("  {} = {:.4g}: {:+.1f} %, {:+.1f} %", s.number, s.value, 100 * s.change_low,
                       100 * s.change_high);
    if (!s.best_low.empty()) out << fmt::format("; at -25 % the best is {}", s.best_low);
    if (!s.best_high.empty()) out << fmt::format("; at +25 % the best is {}", s.best_high);
    out << '\n';
  }
  if (!small.empty()) {
    out << "  Less than 0.5 %:";
    for (std::size_t i = 0; i < small.size(); ++i) out << (i > 0 ? ", " : " ") << small[i];
    out << '\n';
  }
}

void print_basis(std::ostream& out, const Machine& machine, const MeshForecast& best) {
  out << fmt::format(
      "\nKernel times of the best mesh: {} at {:.3g} of the peak in {}, {:.6g} Gflop/s of a "
      "node.\n",
      describe_kernel_shares(best.step.kernel_shares), machine.kernels.rates.efficiency,
      name_of(machine.precision), machine.peak_gflops());
  for (const std::string& note : machine.notes) out << "Note: " << note << ".\n";
}

/// Ends the output, where a terminal shows it, with what people ask first.
void print_summary(std::ostream& out, const Machine& machine, const MeshForecast& best,
                   const std::optional<LeastNodes>& least, const PartMemory& memory) {
  const auto of_node = [&](std::int64_t bytes) {
    const double most = machine.value("memory-gib");
    return fmt::format("{:.1f} GiB per node{}", gib(bytes * machine.ranks_per_node()),
                       most > 0 ? fmt::format(" of {:g}", most) : std::string());
  };
  out << "\nLeast nodes per sample: "
      << (least ? fmt::format("{}, --parts {}: {}", least->nodes, to_string(least->parts),
                              of_node(least->memory_bytes))
                : std::string("not known"))
      << fmt::format("\nMemory of {}: {}; the largest share: {}\n", to_string(best.mesh),
                     of_node(best.memory_bytes), largest_share(memory))
      << fmt::format("Step of {} in {}: {} ms ({} to {})\n", to_string(best.mesh),
                     name_of(machine.precision), milliseconds(best.step.step_s),
                     milliseconds(best.step.low_s), milliseconds(best.step.high_s));
}

json to_json(const StepForecast& step) {
  return {{"compute_s", step.compute_s},
          {"halo_s", step.halo_s},
          {"gather_s", step.gather_s},
          {"reduction_s", step.reduction_s},
          {"straggler_s", step.straggler_s},
          {"input_s", step.input_s},
          {"step_s", step.step_s},
          {"low_s", step.low_s},
          {"high_s", step.high_s},
          {"kernel_shares",
           {{"measured", step.kernel_shares[0]},
            {"interpolated", step.kernel_shares[1]},
            {"roofline", step.kernel_shares[2]}}}};
}

json to_json(const Range3& range) {
  return {{"low", range.low}, {"mid", range.mid}, {"high", range.high}};
}

json document(const Machine& machine, const Job& job, const std::vector<MeshForecast>& all,
              const std::vector<std::string>& hints, const std::vector<Sensitivity>& varied,
              const std::optional<LeastNodes>& least) {
  const bool timed = job.work.training_samples > 0;
  const auto of_run = [&](const json& seconds) { return timed ? seconds : json(); };
  json root{{"machine", machine.name},
            {"nodes", job.nodes},
            {"ranks_per_node", machine.ranks_per_node()},
            {"batch", job.work.batch},
            {"epochs", to_json(job.work.epochs)},
            {"training_samples", of_run(job.work.training_samples)},
            {"validation_samples", of_run(job.work.validation_samples)},
            {"precision", name_of(machine.precision)},
            {"hints", hints},
            {"notes", machine.notes},
            {"least_nodes_per_sample", nullptr}};
  if (least)
    root["least_nodes_per_sample"] = {
        {"nodes", least->nodes},
        {"parts", to_string(least->parts)},
        {"memory_bytes_per_node", least->memory_bytes * machine.ranks_per_node()}};
  for (const MachineNumber& number : machine.numbers)
    root["numbers"][number.name] = {
        {"value", number.value}, {"origin", name_of(number.origin)}, {"source", number.source}};
  root["meshes"] = json::array();
  for (const MeshForecast& f : all) {
    json step = to_json(f.step);
    step["memory_bytes"] = f.memory_bytes;
    root["meshes"].push_back({{"parts", to_string(f.mesh.parts)},
                              {"replicas", f.mesh.replicas},
                              {"local_batch", f.local_batch},
                              {"fits_memory", f.fits},
                              {"recomputes", f.recomputes},
                              {"efficiency", f.efficiency},
                              {"step", std::move(step)},
                              {"evaluation_step", to_json(f.evaluation)},
                              {"epoch_s", of_run(f.run.epoch_s)},
                              {"evaluation_s", of_run(f.run.evaluation_s)},
                              {"staging_s", of_run(f.run.staging_s)},
                              {"startup_s", f.run.startup_s},
                              {"time_to_solution_s", of_run(to_json(f.run.total_s))}});
  }
  root["sensitivities"] = json::array();
  for (const Sensitivity& s : varied)
    root["sensitivities"].push_back({{"number", s.number},
                                     {"value", s.value},
                                     {"change_at_0.75", s.change_low},
                                     {"change_at_1.25", s.change_high},
                                     {"best_at_0.75", s.best_low},
                                     {"best_at_1.25", s.best_high}});
  return root;
}

// Fits the machine to runs and prints how well it meets them.
Machine fit_with_note(std::ostream& out, Machine machine, const Model& model,
                      const std::string& file) {
  const std::vector<MeasuredRun> runs = read_runs(file);
  machine = fit_to_runs(std::move(machine), model, runs);
  TextTable table({"fitted to", "mesh", "measured ms", "forecast ms", "error"}, "<<>>>");
  for (const MeasuredRun& run : runs) {
    const double predicted = predicted_step_s(machine, model, run);
    table.add({run.label, to_string(run.mesh), milliseconds(run.step_s), milliseconds(predicted),
               fmt::format("{:+.1f} %", 100 * (predicted / run.step_s - 1))});
  }
  out << table
      << fmt::format(
             "  kernel efficiency {:.3g}, {:.1f} ms that no layer explains, {:.2f} % of a step per "
             "doubling "
             "of ranks\n\n",
             machine.value("kernel-efficiency"), machine.value("step-overhead-ms"),
             100 * machine.value("straggler-per-doubling"));
  return machine;
}

/// The job with every number that it rests on, given or assumed.
void print_heading(std::ostream& out, const Machine& machine, const Job& job,
                   const Options& options, const std::string& basis) {
  const Range3& epochs = job.work.epochs;
  out << fmt::format("{}: {}, {} per node, {} per rank; batch {}; ", machine.title,
                     counted(job.nodes, "node"), counted(machine.ranks_per_node(), "rank"),
                     counted(machine.threads(), "thread"), job.work.batch);
  if (job.work.training_samples == 0)
    out << "samples of an epoch not known";
  else
    out << fmt::format("{} training and {} validation samples{}; ", job.work.training_samples,
                       job.work.validation_samples,
                       options.is_given("training-samples") ? "" : " (as published)");
  if (job.work.training_samples > 0 && epochs.low == epochs.high)
    out << fmt::format("{:g} epoch{} ({})", epochs.mid, epochs.mid == 1 ? "" : "s", basis);
  else if (job.work.training_samples > 0)
    out << fmt::format("{} to {} epochs, {:.0f} likely ({})", std::round(epochs.low),
                       std::round(epochs.high), epochs.mid, basis);
  std::string defaults;
  for (const auto& [name, value] : assumed_options(options))
    defaults += fmt::format("{} --{} {}", defaults.empty() ? "" : ",", name, value);
  if (!defaults.empty()) out << "\n  not given, so assumed:" << defaults;
  out << "\n\n";
}

[[noreturn]] void refuse_memory(const Machine& machine, const std::vector<MeshForecast>& all) {
  const auto least = std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.memory_bytes < b.memory_bytes;
  });
  const auto ranks = machine.ranks_per_node();
  throw UsageError(
      fmt::format("no mesh fits the memory: {} needs {:.4g} GiB per rank, {:.4g} GiB per node of "
                  "{} ranks, but a node of {} has {:.4g} GiB",
                  to_string(least->mesh), gib(least->memory_bytes),
                  gib(least->memory_bytes * ranks), ranks, machine.name,
                  machine.value("memory-gib")),
      "use more nodes, fewer ranks per node, a smaller batch, or more parts (--max-parts)");
}

/// Memory is counted with the kernels that the library has for this computer.
void note_other_cpu(Machine& machine) {
  const std::string here = Topology::of_this_node().cpu_model();
  if (here != machine.cpu)
    machine.notes.push_back(fmt::format(
        "memory is counted with the library's kernels for this computer ({}), not for {}: their "
        "scratch may differ",
        here.empty() ? "unknown CPU" : here, machine.cpu.empty() ? "the machine's" : machine.cpu));
}

void forecast_meshes(std::ostream& out, const Options& options, const Model& model, Machine machine,
                     const fs::path& jobscripts) {
  note_other_cpu(machine);
  std::string basis;
  Job job = job_of(options, model, jobscripts, basis);
  Progress progress("forecast", "meshes", 0);
  job.progress = [&](std::int64_t made) { progress.update(made); };
  const MeshSearch search(machine, model, job);
  const std::vector<MeshForecast> all = search.forecasts();
  if (!all.front().fits) refuse_memory(machine, all);
  const std::vector<Sensitivity> varied = search.sensitivities(all);
  const std::optional<LeastNodes> least = search.least_nodes();
  const MeshForecast& best = all.front();
  MemoryForecast memory(options);
  const PartMemory of_best = memory_on(memory, machine, model.geometry(best.mesh.parts), best);
  progress.finish();
  const bool timed = job.work.training_samples > 0;
  print_heading(out, machine, job, options, basis);
  print_meshes(out, all, timed);
  for (const std::string& hint : search.hints()) out << "Left out: " << hint << ".\n";
  print_choice(out, all, timed);
  print_sensitivities(out, varied, timed);
  print_basis(out, machine, best);
  print_summary(out, machine, best, least, of_best);
  const auto file = options.get<std::string>("json");
  if (file.empty()) return;
  json root = document(machine, job, all, search.hints(), varied, least);
  root["model"] = options.get<std::string>("model");
  root["input"] = to_text(model.input());
  root["epochs_from"] = basis;
  root["assumed_options"] = assumed_options(options);
  write_file_atomically(file, dump_json(root, 2) + "\n");
}

}  // namespace

void add_machine_options(Options& options) {
  options.group("Forecast")
      .add<std::string>(kMachine, "NAME|FILE", "",
                        "forecast every mesh on this machine: a name, a machine file, or what "
                        "bench --calibrate wrote; list: print the names; template: print a file to "
                        "start from")
      .add<std::int64_t>("nodes", "N", 1, "nodes of the job")
      .at_least(1)
      .needs(kMachine)
      .add<std::int64_t>("ranks-per-node", "R", 0, "ranks on each node; 0: the machine's")
      .at_least(0)
      .at_most(4096)
      .needs(kMachine)
      .add<std::int64_t>("batch", "B", 512, "global batch size: samples per step")
      .at_least(1)
      .needs(kMachine)
      .add<std::int64_t>("max-parts", "P", 64, "parts per sample at most")
      .at_least(1)
      .at_most(256)
      .needs(kMachine)
      .add<std::int64_t>("training-samples", "N", 0,
                         "samples of an epoch; 0: as published for CosmoFlow, unknown otherwise")
      .at_least(1)
      .needs(kMachine)
      .add<std::int64_t>("validation-samples", "N", 0,
                         "samples of an evaluation; 0: none, or as published for CosmoFlow")
      .at_least(0)
      .needs(kMachine)
      .add<double>("target-epochs", "N", 0, "epochs to the target; default: by --epochs-table")
      .at_least(0.01)
      .needs(kMachine)
      .add<std::string>(
          "epochs-table", "FILE", "",
          "epochs to the target by batch; default: published runs of CosmoFlow, one epoch of "
          "other networks")
      .needs(kMachine)
      .instead_of("target-epochs")
      .add<std::string>("kernel-times", "FILE", "", "kernel times that bench --calibrate wrote")
      .needs(kMachine)
      .add<std::string>("runs", "FILE", "",
                        "fit the machine's constants to these measured steps first")
      .needs(kMachine)
      .add_switch("numbers", "print the numbers of the machine and where they come from")
      .needs(kMachine)
      .add<std::string>("json", "FILE", "",
                        "also write the network's layers, or with --machine the forecast, as JSON")
      .add<std::string>("platform", "FILE", "",
                        "write a SimGrid platform of the machine instead of a forecast")
      .needs(kMachine);
}

bool wants_machine(const Options& options) { return !options.get<std::string>(kMachine).empty(); }

void plan_on_machine(std::ostream& out, const Options& options, const Model& model,
                     const fs::path& jobscripts) {
  if (options.get<std::string>(kMachine) == "list") {
    for (const std::string& name : machine_names(jobscripts)) out << name << '\n';
    return;
  }
  if (options.get<std::string>(kMachine) == "template") {
    out << machine_template(load_machine("xeon-slurm", jobscripts));
    return;
  }
  Machine machine =
      load_machine(options.get<std::string>(kMachine), jobscripts, planned_precision(options));
  machine.derive(options.get<std::int64_t>("ranks-per-node"));
  if (const auto file = options.get<std::string>("kernel-times"); !file.empty())
    add_kernels(machine, file);
  if (const auto file = options.get<std::string>("runs"); !file.empty())
    machine = fit_with_note(out, std::move(machine), model, file);
  if (options.get<bool>("numbers")) {
    print_machine(out, machine);
    return;
  }
  if (const auto file = options.get<std::string>("platform"); !file.empty()) {
    write_file_atomically(file, platform_xml(machine, options.get<std::int64_t>("nodes")));
    return;
  }
  forecast_meshes(out, options, model, std::move(machine), jobscripts);
}

}  // namespace halomesh
