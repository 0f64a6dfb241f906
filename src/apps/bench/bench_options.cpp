// SPDX-License-Identifier: Apache-2.0
// The options of the command bench: see bench_options.hpp.
#include "src/apps/bench/bench_options.hpp"

#include <algorithm>
#include <sstream>

#include "simulation.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/padding_option.hpp"
#include "src/apps/options/train_options.hpp"

namespace halomesh {
namespace {

std::vector<std::string> words_of(const std::string& list, const std::string& option) {
  std::vector<std::string> words;
  std::istringstream text(list);
  for (std::string word; std::getline(text, word, ',');) {
    if (std::find(words.begin(), words.end(), word) != words.end())
      throw UsageError(fmt::format("--{} {} names {} twice", option, list, word), "give it once");
    words.push_back(word);
  }
  if (words.empty())
    throw UsageError(fmt::format("--{} is empty", option), "separate several by commas");
  return words;
}

std::vector<std::string> precisions_of(const Options& options) {
  std::vector<std::string> precisions =
      words_of(options.get<std::string>("precision"), "precision");
  for (const std::string& precision : precisions) precision_named(precision);
  return precisions;
}

}  // namespace

Options bench_options() {
  Options options("bench [options]",
                  "Measures training and evaluation on generated input, layer by layer, for a list "
                  "of meshes\nand precisions. Run it under mpirun or srun like train.");
  add_model_options(options);
  options.group("Measurement")
      .add<std::string>("parts", "LIST", "1x1x1",
                        "meshes DxHxW, e.g. 1x1x1,2x1x1; those that divide the ranks")
      .add<std::string>("precision", "LIST", "fp32", "fp32, bf16 or both: fp32,bf16")
      .add<std::int64_t>("batch", "B", 0, "samples per step, over all replicas; 0: one per replica")
      .at_least(0)
      .add("steps", "K", &BenchPlan::steps, "measured steps")
      .at_least(1)
      .add("warm-up", "W", &BenchPlan::warm_up, "unmeasured steps before them")
      .at_least(0)
      .add_switch("evaluate", "also measure evaluation: three passes of K steps")
      .into(&BenchPlan::evaluate)
      .add_switch("sums", "only sums over all ranks, by each algorithm and by MPI")
      .into(&BenchPlan::sums)
      .add<std::vector<std::int64_t>>(
          "sum-bytes", "B,...", {65536, 2700000, 22390416},
          "bytes of --sums: 64 KiB, conv5 to fc of CosmoFlow, and all of it")
      .at_least(4)
      .at_most(0x1p32)
      .needs("sums")
      .add("seed", "S", &BenchPlan::seed, "seed of input, weights and dropout")
      .add("json", "FILE", &BenchPlan::json, "also write all figures to FILE")
      .add("simulate-compute", "FILE", &BenchPlan::simulate_compute,
           "instead of computing, wait as long as the machine of FILE would: real messages of "
           "values that mean nothing");
  add_reduction_option(options);
  add_payload_option(options);
  add_reproducible_option(options);
  options.into(&BenchPlan::reproducible);
  add_recompute_option(options);
  add_padding_option(options);
  options.group("Calibration")
      .add_switch("calibrate",
                  "instead, measure what predictions need to know of this machine: peaks, kernels, "
                  "network, input; --json FILE is then a machine file for plan and scaling")
      .add<double>("calibrate-seconds", "S", 110, "time for it; what does not fit is left out")
      .at_least(1)
      .needs("calibrate")
      .add<std::int64_t>("calibrate-parts", "N", 16,
                         "measure the kernels of all meshes of up to N parts")
      .at_least(1)
      .at_most(1024)
      .needs("calibrate")
      .add<std::int64_t>("calibrate-batch", "B", 1, "samples of each part in these kernels")
      .at_least(1)
      .needs("calibrate")
      .add<std::string>("data", "DIR", "", "also measure reading and decoding this data set")
      .needs("calibrate");
  options.add_choice("send-halos", {"early", "late"}, "early",
                     "halos leave early: as soon as the chunks that they are part of are computed; "
                     "late: with the whole layer");
  options.add_choice("chunk-order", {"local-first", "boundary-first"}, "local-first",
                     "compute first the planes that need no halo, or those at the boundary, "
                     "which neighbours wait for");
  options.accept_in_config(all_run_options());
  return options;
}

BenchPlan read_bench_plan(const Options& options, std::int64_t ranks) {
  auto plan = options.read<BenchPlan>();
  plan.reduction = reduction_named(options.get<std::string>("reduction"));
  plan.sends_early = options.get<std::string>("send-halos") == "early";
  plan.chunk_order = options.get<std::string>("chunk-order") == "local-first"
                         ? ChunkOrder::kLocalFirst
                         : ChunkOrder::kBoundaryFirst;
  plan.payload = payload_type(options);
  plan.memory = memory_use(options);
  plan.pads = !describe_padding(options).empty();
  for (const std::int64_t bytes : options.get<std::vector<std::int64_t>>("sum-bytes"))
    plan.sum_bytes.push_back(bytes / 4 * 4);  // whole floats
  if (plan.reproducible && !plan.simulate_compute.empty())
    throw UsageError("--reproducible cannot be combined with --simulate-compute",
                     "machine files have no times of its kernels; leave out one of the two");
  if (simulation::kOn && !plan.memory)
    throw UsageError("--recompute auto: simulated ranks have no memory of their own",
                     "give --recompute on or off");
  if (simulation::kOn && plan.simulate_compute.empty())
    throw UsageError("simulated ranks do not compute", "name a machine by --simulate-compute FILE");
  const std::vector<std::string> precisions = precisions_of(options);
  const auto list = options.get<std::string>("parts");
  for (const std::string& text : words_of(list, "parts")) {
    const PartGrid parts = parse_part_grid(text);
    if (ranks % parts.count() != 0) {
      plan.left_out.push_back(parts);
      continue;
    }
    const MeshShape mesh = make_mesh(ranks, parts);
    const auto batch = options.get<std::int64_t>("batch");
    local_batch(batch == 0 ? mesh.replicas : batch, mesh);
    for (const std::string& precision : precisions)
      plan.cases.push_back({mesh, precision, batch == 0 ? mesh.replicas : batch});
  }
  if (plan.cases.empty())
    throw UsageError(fmt::format("no mesh of --parts {} divides {}{}", list, ranks,
                                 ranks == 1 ? " rank" : " ranks"),
                     "start a number of ranks that is a multiple of the parts of a mesh");
  return plan;
}

}  // namespace halomesh
