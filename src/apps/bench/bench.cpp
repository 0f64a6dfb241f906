// SPDX-License-Identifier: Apache-2.0
// The command `bench`: measures the speed of training and evaluation, and the time of each phase.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "printable.hpp"
#include "runtime/machine/binding.hpp"
#include "simulation.hpp"
#include "src/apps/bench/bench_options.hpp"
#include "src/apps/bench/bench_report.hpp"
#include "src/apps/bench/bench_run.hpp"
#include "src/apps/bench/calibrate.hpp"
#include "src/apps/bench/machine_peak.hpp"
#include "src/apps/bench/sum_speed.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/output_directory.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/launch/run_record.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/padding_option.hpp"

namespace halomesh {
namespace {

/// Bytes of each triad array of a rank: twice the last-level cache divided by the ranks of the
/// node, so that three arrays exceed the cache, but no more than a small machine can hold.
std::int64_t triad_bytes(const RankBinding& binding) {
  const std::int64_t node_bytes = 2 * std::max(binding.l2.bytes, binding.l3.bytes);
  return std::clamp<std::int64_t>(node_bytes / binding.ranks_on_node, 16 << 20, 256 << 20);
}

/// The share of a core that each thread of this rank has.
double core_share(const RankBinding& binding) {
  const double own = static_cast<double>(binding.cores) / binding.threads;
  const double shared = static_cast<double>(binding.sharing.cores) / binding.sharing.threads;
  return std::min({1.0, own, shared});
}

int calibrate_machine(const Comm& world, const Options& options) {
  if (simulation::kOn)
    throw UsageError("simulated ranks cannot be calibrated", "calibrate on the machine itself");
  const auto file = options.get<std::string>("json");
  const auto precision = options.get<std::string>("precision");
  if (precision.find(',') != std::string::npos)
    throw UsageError(
        fmt::format("--precision {} names two, and --calibrate measures one", precision),
        "calibrate once for each, into a file of its own");
  const RankBinding binding = bind_threads(world);
  if (!file.empty()) check_output_file(world, options, "json");
  const MachinePeak peak =
      measure_peak(world, core_share(binding), world.max(triad_bytes(binding)));
  if (world.rank() == 0) print_peak(std::cout, peak);
  if constexpr (!simulation::kOn) {
    const MachineRecord record = calibrate(world, options, binding, peak);
    if (file.empty()) return kExitDone;
    write_record(world, file, to_json(record));
    if (world.rank() == 0) std::cout << "machine file in " << printable(file) << std::endl;
  }
  return kExitDone;
}

int bench(const Comm& world, const Options& options) {
  const Options network_options = with_padded_input(options);
  if (options.get<bool>("calibrate")) return calibrate_machine(world, network_options);
  const BenchPlan plan = read_bench_plan(options, world.size());
  const std::unique_ptr<TimedMachine> machine =
      plan.simulate_compute.empty()
          ? nullptr
          : read_timed_machine(world, plan.simulate_compute,
                               precision_named(options.get<std::string>("precision")));
  // Simulated ranks share this process, whose binding says nothing about them.
  const RankBinding binding = simulation::kOn ? RankBinding{} : bind_threads(world);
  const bool speaks = world.rank() == 0;
  nlohmann::ordered_json record;
  if constexpr (!simulation::kOn) record = program_record(world, binding, options);
  if (machine) record["compute_times_of"] = machine->machine.name;
  record["threads"] = binding.threads;
  record["runs"] = nlohmann::ordered_json::array();
  if (!plan.json.empty()) check_output_file(world, options, "json");
  if (plan.sums) {
    const ProcessMesh mesh(world, {world.size(), {1, 1, 1}});
    const std::vector<SumSpeed> sums = measure_sums(mesh, plan.sum_bytes, simulation::kOn ? 0 : 11);
    record["sums"] = sums_json(sums, world.size());
    if (speaks) {
      std::cout << world.size() << " ranks x " << binding.threads << " threads, "
                << MpiSession::library_version() << ": until the last rank is done\n";
      print_sums(std::cout, sums);
    }
    if (!plan.json.empty()) write_record(world, plan.json, record);
    return kExitDone;
  }
  for (const PartGrid& parts : plan.left_out)
    if (speaks)
      std::cout << "parts " << to_string(parts) << " left out: they do not divide " << world.size()
                << " ranks\n";
  if (speaks && plan.pads) std::cout << describe_padding(options) << '\n';
  const MachinePeak peak =
      machine ? machine->peak
              : measure_peak(world, core_share(binding), world.max(triad_bytes(binding)));
  record["peak"] = to_json(peak);
  if (speaks) print_peak(std::cout, peak);
  for (const BenchCase& setting : plan.cases) {
    const BenchResult result = run_case(world, network_options, plan, setting, machine.get());
    record["runs"].push_back(to_json(result, peak));
    if (speaks) print_result(std::cout, result, peak, binding.threads);
    warn_of_slow_kernels(world, result.implementations);
    if (speaks) std::cout << std::flush;
    if (!plan.json.empty()) write_record(world, plan.json, record);
  }
  return kExitDone;
}

}  // namespace

int run_bench(int argc, char** argv) {
  Options options = bench_options();
  return run_parallel(argc, argv, options,
                      [&](const Comm& world) { return bench(world, options); });
}

}  // namespace halomesh
