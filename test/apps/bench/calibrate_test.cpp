// SPDX-License-Identifier: Apache-2.0
// Calibration: which kernels are measured, their times, and the machine file.
#include "src/apps/bench/calibrate.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "src/apps/bench/bench_options.hpp"
#include "src/apps/options/model_options.hpp"

namespace halomesh {
namespace {

Options small_network(std::vector<const char*> more = {}) {
  std::vector<const char*> arguments{"bench", "--input",   "16x16x16x4", "--conv-layers",
                                     "2",     "--fc",      "8",          "--targets",
                                     "4",     "--filters", "4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Options options = bench_options();
  options.parse(static_cast<int>(arguments.size()), arguments.data());
  return options;
}

TEST_CASE("all grids of up to four parts, the smallest first") {
  const std::vector<PartGrid> grids = part_grids(4);
  REQUIRE(grids.size() == 1 + 3 + 3 + 6);
  CHECK(grids.front() == PartGrid{1, 1, 1});
  CHECK(grids[1].count() == 2);
  CHECK(grids.back().count() == 4);
}

TEST_CASE("each kernel case is measured once, whatever the number of meshes that have it") {
  const Options options = small_network();
  const Model model = make_model(options);
  const std::vector<PartGrid> grids{{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {2, 2, 1}};
  const std::vector<LayerCase> cases = layer_cases(model, grids, 1, 3);
  std::set<std::string> seen;
  int shared = 0;
  for (const LayerCase& one : cases) {
    REQUIRE(!one.passes.empty());
    for (const KernelCase& call : one.passes) {
      CHECK(call.threads == 3);
      CHECK(!call.kernel.empty());
      const bool is_new =
          seen.insert(fmt::format("{} {} {}x{}x{}x{} {}x{}x{}x{}", call.kernel, name_of(call.pass),
                                  call.src.d, call.src.h, call.src.w, call.src.c, call.dst.d,
                                  call.dst.h, call.dst.w, call.dst.c))
              .second;
      CHECK(is_new);
    }
    // First blocks of different meshes differ; the end of the network is the same on all.
    CHECK(one.meshes >= 1);
    CHECK(one.meshes <= 4);
    if (one.layer == 0) CHECK(one.meshes == 1);
    shared += one.meshes == 4 ? 1 : 0;
  }
  CHECK(shared > 0);
  // The first layer computes no gradient of its input; the second does.
  for (const LayerCase& one : cases)
    if (one.layer < 2) CHECK(one.passes.size() == one.layer + 2);
  // The extents are those of a part: half of the planes, and one plane of halo on one side.
  bool found = false;
  for (const LayerCase& one : cases)
    if (one.parts == PartGrid{2, 1, 1} && one.layer == 0 && one.part == 0) {
      found = true;
      CHECK(one.passes[0].dst == Shape{4, 4, 8, 8});
      CHECK(one.passes[0].src.h == 16);
      CHECK(one.passes[0].src.d >= 8);
      CHECK(one.passes[0].src.d <= 9);
      CHECK(one.memory > 0);
    }
  CHECK(found);
  // The whole sample on one rank costs most of all first blocks: it is left out first.
  std::size_t last_block = 0;
  for (std::size_t i = 0; i < cases.size(); ++i)
    if (cases[i].layer == 0) last_block = i;
  CHECK(cases[last_block].parts == PartGrid{1, 1, 1});
}

TEST_CASE("a layer alone is timed in each of its passes") {
  const Options options = small_network();
  const std::vector<LayerCase> cases =
      layer_cases(make_model(options), {{1, 1, 1}, {1, 2, 2}}, 2, 1);
  KernelTimes times;
  std::size_t passes = 0;
  for (const LayerCase& one : cases) passes += one.passes.size();
  for (int round = 0; round < 3; ++round) {
    KernelTimes now;
    for (const LayerCase& one : cases) measure(one, options, DataType::kFloat32, 1e-3, now);
    times.add_round(now);
  }
  CHECK(passes > 10);
  REQUIRE(times.kernels.size() == passes);
  double sum = 0;
  for (const MeasuredKernel& kernel : times.kernels) {
    CHECK(kernel.seconds > 0);
    sum += kernel.seconds;
  }
  // Each pass ran at least three times, and a pass ends with a poll.
  CHECK(times.computed_s > sum);
  CHECK(times.polls >= static_cast<std::int64_t>(3 * passes));
}

TEST_CASE("of several rounds the shortest time of each kernel stays") {
  const auto round = [](std::vector<double> seconds) {
    KernelTimes times;
    for (const double s : seconds) {
      times.kernels.emplace_back();
      times.kernels.back().seconds = s;
    }
    times.computed_s = 1;
    times.polls = 10;
    return times;
  };
  KernelTimes times = round({3, 5});
  times.add_round(round({4}));        // broken off
  times.add_round(round({2, 6, 7}));  // with one more
  REQUIRE(times.kernels.size() == 3);
  CHECK(times.kernels[0].seconds == 2);
  CHECK(times.kernels[1].seconds == 5);
  CHECK(times.kernels[2].seconds == 7);
  CHECK(times.computed_s == 3);
  CHECK(times.polls == 30);
}

TEST_CASE("kernel times survive their way between ranks") {
  const MeasuredKernel kernel{{"block 3x3x3 \"same\"",
                               KernelPass::kBackwardData,
                               {4, 9, 16, 17},
                               {8, 4, 8, 8},
                               2,
                               3,
                               1.5e9,
                               2e6},
                              1.25e-3};
  const std::vector<MeasuredKernel> back = kernels_of(to_text(std::vector{kernel, kernel}));
  REQUIRE(back.size() == 2);
  for (const MeasuredKernel& one : back) {
    CHECK(one.call.kernel == kernel.call.kernel);
    CHECK(one.call.pass == kernel.call.pass);
    CHECK(one.call.src == kernel.call.src);
    CHECK(one.call.dst == kernel.call.dst);
    CHECK(one.call.batch == 2);
    CHECK(one.call.threads == 3);
    CHECK(one.call.flops == 1.5e9);
    CHECK(one.call.bytes == 2e6);
    CHECK(one.seconds == 1.25e-3);
  }
  CHECK(kernels_of(to_text(std::vector<MeasuredKernel>{})).empty());
}

TEST_CASE("the kernels of a step are those of each of its layers on one part") {
  const Options options = small_network();
  const Model model = make_model(options);
  KernelTable table;
  double sum = 0, seconds = 1;
  for (const LayerCase& one : layer_cases(model, {{1, 1, 1}}, 1, 3))
    for (const KernelCase& call : one.passes) {
      table.add(call, seconds);
      sum += seconds;
      seconds *= 2;
    }
  table.rates = {1e12, 1, 1e11};
  CHECK(sum > 100);
  CHECK(kernels_of_step(model, table, 1, 3) == sum);
  CHECK(kernels_of_step(model, table, 1, 4) == 0);  // measured with other threads
}

TEST_CASE("a spread of steps that other programs have made is not recorded, and why") {
  CHECK(StepSpread{20, 0.5, 0.3, 0}.problem() == "");
  CHECK(StepSpread{20, 0.5, 0.64, 0}.problem() ==
        "not recorded, as their relative standard deviation of 64 % shows that other programs use "
        "the cores; calibrate when the machine is quiet");
}

TEST_CASE("the machine file says what was measured and what was not") {
  MachineRecord record;
  record.name = "node7";
  record.peak = {1e11, 2e11, 1e10};
  nlohmann::json json = to_json(record);
  for (const char* block : {"network", "kernels", "step_spread", "input"})
    CHECK(json["sources"][block] == "not measured");
  CHECK(json["sources"]["peak"] == "measured");
  CHECK(json["network"]["within_node"].is_null());
  CHECK(json["network"]["poll_s"].is_null());
  CHECK(json["input"].is_null());
  record.network = NetworkRecord{};
  record.network->within_node = LinkRecord{{{8, 1e-6}, {1 << 20, 1e-4}}, {1e-6, 1e-10}, 4096};
  record.network->sums = {{2, 4096, "mpi", 1e-5}};
  record.network->barriers = {{2, 3e-6}};
  record.poll_s = 1e-4;
  record.step_spread = StepSpread{20, 0.5, 0.02, 0};
  CHECK(to_json(record)["step_spread"]["kernel_time_factor"].is_null());
  record.step_spread->kernel_time_factor = 1.05;
  record.input = InputRates{1e9, 0};
  json = to_json(record);
  CHECK(json["peak"]["triad_bytes_per_second"] == 1e10);
  CHECK(json["network"]["within_node"]["latency_s"] == 1e-6);
  CHECK(json["network"]["within_node"]["eager_bytes"] == 4096);
  CHECK(json["network"]["between_nodes"].is_null());
  CHECK(json["network"]["ping_pong"].size() == 2);
  CHECK(json["network"]["ping_pong"][1]["seconds"] == 1e-4);
  CHECK(json["network"]["sums"][0]["algorithm"] == "mpi");
  CHECK(json["network"]["barrier"][0]["ranks"] == 2);
  CHECK(json["network"]["poll_s"] == 1e-4);
  // Of two steps from N(1, 0.02) the larger is 1 + 0.02 / sqrt(pi) on average.
  CHECK(json["step_spread"]["per_doubling"].get<double>() ==
        doctest::Approx(0.02 / std::sqrt(3.14159265)));
  CHECK(json["step_spread"]["kernel_time_factor"] == 1.05);
  CHECK(json["input"]["read_bytes_per_second"] == 1e9);
  CHECK(json["input"]["decode_bytes_per_second"].is_null());
  CHECK(json["sources"]["network"] == "measured");
}

}  // namespace
}  // namespace halomesh
