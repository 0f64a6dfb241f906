// SPDX-License-Identifier: Apache-2.0
// The command bench: its options, generated input, work of phases, and their times.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <regex>
#include <sstream>

#include "runtime/posix/process_memory.hpp"
#include "src/apps/bench/bench_input.hpp"
#include "src/apps/bench/bench_options.hpp"
#include "src/apps/bench/bench_report.hpp"
#include "src/apps/bench/bench_run.hpp"
#include "src/apps/bench/machine_peak.hpp"
#include "src/apps/bench/step_bound.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/nn/kernels/peak.hpp"
#include "src/nn/onednn/library.hpp"
#include "src/nn/onednn/matrix_products.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

Options parsed(std::vector<const char*> arguments) {
  Options options = bench_options();
  arguments.insert(arguments.begin(), "bench");
  options.parse(static_cast<int>(arguments.size()), arguments.data());
  return options;
}

TEST_CASE("each mesh that fits is measured in each precision, others are left out") {
  const BenchPlan plan =
      read_bench_plan(parsed({"--parts", "1x1x1,2x1x1,3x1x1,2x2x1", "--batch", "4", "--steps", "7",
                              "--warm-up", "0", "--evaluate", "--json", "f.json"}),
                      4);
  REQUIRE(plan.cases.size() == 3);
  CHECK(plan.cases[0].mesh.replicas == 4);
  CHECK(plan.cases[1].mesh.replicas == 2);
  CHECK(plan.cases[2].mesh.parts == PartGrid{2, 2, 1});
  CHECK(plan.cases[2].mesh.replicas == 1);
  CHECK(plan.cases[2].batch == 4);
  CHECK(plan.left_out == std::vector<PartGrid>{{3, 1, 1}});
  CHECK(plan.steps == 7);
  CHECK(plan.warm_up == 0);
  CHECK(plan.evaluate);
  CHECK(plan.json == "f.json");
  CHECK(plan.reduction == Reduction::kAuto);
  CHECK(read_bench_plan(parsed({"--reduction", "flat"}), 1).reduction == Reduction::kFlat);
  CHECK(read_bench_plan(parsed({"--reduction", "mpi"}), 1).reduction == Reduction::kFlat);
  CHECK(read_bench_plan(parsed({"--reduction", "ring"}), 1).reduction == Reduction::kRing);
  CHECK(read_bench_plan(parsed({"--reduction", "two-level"}), 1).reduction == Reduction::kTwoLevel);
  CHECK_THROWS_AS(reduction_named("tree"), UsageError);
  // One sample per replica unless a batch is given.
  CHECK(read_bench_plan(parsed({"--parts", "2x1x1"}), 6).cases.at(0).batch == 3);
}

TEST_CASE("invalid requests are refused, naming the value") {
  const auto refused = [](const std::vector<const char*>& arguments, std::int64_t ranks,
                          const std::string& named) {
    CAPTURE(named);
    try {
      read_bench_plan(parsed(arguments), ranks);
      FAIL("nothing was thrown");
    } catch (const UsageError& error) {
      CAPTURE(error.what());
      CHECK(std::string(error.what()).find(named) != std::string::npos);
      CHECK_FALSE(error.hint().empty());
    }
  };
  refused({"--parts", "2x1x1,3x1x1"}, 5, "2x1x1,3x1x1");
  refused({"--parts", "2by2"}, 4, "2by2");
  refused({"--parts", ""}, 4, "--parts");
  refused({"--parts", "1x1x1,1x1x1"}, 4, "twice");
  refused({"--precision", "fp32,fp16"}, 1, "fp16");
  refused({"--batch", "3"}, 2, "3");
  CHECK_THROWS_AS(parsed({"--steps", "0"}), UsageError);
}

TEST_CASE("a part reads the same values as from the whole generated sample") {
  const Shape shape{3, 5, 4, 7};
  GeneratedReader reader(9, shape);
  const Box whole = Box::whole(shape), part{{0, 1, 2, 3}, {3, 4, 4, 6}};
  std::vector<float> all(static_cast<std::size_t>(whole.volume())), block(54);
  std::vector<float> targets(4);
  reader.read(2, TensorView<float>{all.data(), whole, 1}, scalars(targets));
  reader.read(2, TensorView<float>{block.data(), part, 1}, {});
  const TensorView<const float> a{all.data(), whole, 1}, b{block.data(), part, 1};
  int compared = 0;
  for (std::int64_t d = 1; d < 4; ++d)
    for (std::int64_t h = 2; h < 4; ++h)
      for (std::int64_t w = 3; w < 6; ++w)
        for (std::int64_t c = 0; c < 3; ++c, ++compared)
          CHECK(a.at(0, c, d, h, w) == b.at(0, c, d, h, w));
  CHECK(compared == 54);
  for (const float target : targets) CHECK(std::abs(target) <= 1.0f);
  std::vector<float> other(all.size());
  reader.read(3, TensorView<float>{other.data(), whole, 1}, {});
  CHECK(all != other);
  std::vector<std::int16_t> counts(all.size());
  reader.read(2, TensorView<std::int16_t>{counts.data(), whole, 1}, {});
  for (std::size_t i = 0; i < all.size(); ++i)
    CHECK(all[i] == static_cast<float>(std::log1p(static_cast<double>(counts[i]))));
}

TEST_CASE("generated counts have mean and variance of Poisson's law") {
  const Shape shape{4, 16, 16, 16};
  std::vector<float> values(static_cast<std::size_t>(shape.volume()));
  GeneratedReader(1, shape).read(0, TensorView<float>{values.data(), Box::whole(shape), 1}, {});
  double sum = 0, squares = 0;
  for (const float value : values) {
    const double count = std::expm1(static_cast<double>(value));
    CHECK(std::abs(count - std::round(count)) < 1e-5);
    sum += count;
    squares += count * count;
  }
  const double n = static_cast<double>(values.size()), mean = sum / n;
  // Both are 1, less what lies beyond the last of 256 quantiles: 1/512 of the law, whose counts
  // there are at most about 5, so within 5/512 and 25/512. The sample adds 5 standard errors,
  // sqrt(1 / n) and sqrt(3 / n) (fourth central moment 4, minus variance squared).
  CHECK(std::abs(mean - 1) < 5.0 / 512 + 5 * std::sqrt(1 / n));
  CHECK(std::abs(squares / n - mean * mean - 1) < 25.0 / 512 + 5 * std::sqrt(3 / n));
}

TEST_CASE("generated labels are classes, and those of a block are those of the whole sample") {
  const Shape shape{1, 6, 5, 7};
  GeneratedReader reader(9, shape, 3);
  const Box whole = Box::whole(shape), part{{0, 1, 2, 3}, {1, 4, 4, 6}};
  std::vector<std::uint8_t> all(static_cast<std::size_t>(whole.volume())), block(18);
  reader.read(2, {}, TensorView<std::uint8_t>{all.data(), whole, 1});
  reader.read(2, {}, TensorView<std::uint8_t>{block.data(), part, 1});
  const TensorView<const std::uint8_t> a{all.data(), whole, 1}, b{block.data(), part, 1};
  int compared = 0;
  for (std::int64_t d = 1; d < 4; ++d)
    for (std::int64_t h = 2; h < 4; ++h)
      for (std::int64_t w = 3; w < 6; ++w, ++compared)
        CHECK(a.at(0, 0, d, h, w) == b.at(0, 0, d, h, w));
  CHECK(compared == 18);
  for (std::uint8_t label = 0; label < 3; ++label)
    CHECK(std::count(all.begin(), all.end(), label) > 30);
  CHECK(std::count_if(all.begin(), all.end(), [](std::uint8_t label) { return label > 2; }) == 0);
}

TEST_CASE("work of a layer is shared by its parts") {
  Options options("x", "");
  add_model_options(options);
  const char* argv[] = {"x"};
  options.parse(1, argv);
  const Model model = make_model(options);
  const ModelGeometry whole = model.geometry({1, 1, 1}), cut = model.geometry({4, 4, 1});
  const StepWork serial(model, whole, 0, 2);
  // 128^3 voxels, 8 taps, 4 channels to 32 filters, 2 samples, 2 operations each.
  const double conv1 = 2.0 * 2 * 128 * 128 * 128 * 8 * 4 * 32;
  CHECK(serial.of({Phase::kForward, "conv1"}).flops == conv1);
  CHECK(serial.of({Phase::kBackwardParameters, "conv1"}).flops == conv1);
  CHECK(serial.of({Phase::kBackwardData, "conv1"}).flops ==
        0);  // the input's gradient is not needed
  CHECK(serial.of({Phase::kBackwardData, "conv2"}).flops ==
        serial.of({Phase::kForward, "conv2"}).flops);
  // Of 2 samples the counts, 2 bytes each, and the pooled output; weights and biases; fp32.
  CHECK(serial.of({Phase::kForward, "conv1"}).memory_bytes ==
        2.0 * 2 * 128 * 128 * 128 * 4 + 4.0 * (2.0 * 64 * 64 * 64 * 32 + 8 * 4 * 32 + 32));
  double conv = 0, dense = 0;
  for (std::int64_t part = 0; part < 16; ++part) {
    const StepWork work(model, cut, part, 2);
    conv += work.of({Phase::kForward, "conv1"}).flops;
    dense += work.of({Phase::kForward, "fc1"}).flops;
  }
  CHECK(conv == conv1);
  CHECK(dense == serial.of({Phase::kForward, "fc1"}).flops);
  // The sum over all ranks: three replicas repeat the work of the parts with samples of their own.
  const StepWork all = StepWork::of_all_ranks(model, cut, {3, {4, 4, 1}}, 2);
  CHECK(all.of({Phase::kForward, "conv1"}).flops == 3 * conv1);
  CHECK(all.flops() == doctest::Approx(3 * serial.flops()).epsilon(1e-12));
}

TEST_CASE("the median is the middle value") {
  CHECK(spread_of({3, 1, 2}).median == 2);
  const Spread even = spread_of({4, 1, 3, 2});
  CHECK(even.median == 2.5);
  CHECK(even.min == 1);
  CHECK(even.max == 4);
  CHECK_THROWS_AS(spread_of({}), Error);
}

TEST_CASE("the roof is the lower of peak and traffic") {
  MachinePeak peak;
  peak.fp32 = 100;
  peak.triad = 10;
  CHECK(peak.roof({40, 8}, "fp32") == 50);
  CHECK(peak.roof({800, 8}, "fp32") == 100);
  CHECK(peak.of("bf16") == 100);
  peak.bf16 = 50;
  CHECK(peak.of("bf16") == 100);
  peak.bf16 = 200;
  CHECK(peak.of("bf16") == 200);
  CHECK(peak.of("fp32") == 100);
}

TEST_CASE("the bound of a step is the resource that takes longest") {
  MachinePeak peak;
  peak.fp32 = 100;
  peak.triad = 10;
  BenchResult result;
  result.setting.precision = "fp32";
  result.flops = 200;
  result.mean_step_s = 8;
  result.rows.push_back({{Phase::kForward, "a"}, 1, 1, 0, {150, 25}});
  result.rows.push_back({{Phase::kOptimizer, ""}, 1, 1, 0, {0, 5}});
  const auto seconds = [&](const std::string& name) {
    const StepBound bound = bound_of(result, peak);
    for (const StepBound::Resource& each : bound.resources)
      if (name == each.name) return each.seconds.value_or(-1);
    return -2.0;
  };
  CHECK(seconds("compute") == 2);
  CHECK(seconds("memory") == 3);
  CHECK(seconds("halo") == -1);  // one rank
  CHECK(seconds("reduction") == -1);
  CHECK(seconds("input") == -1);
  CHECK(bound_of(result, peak).largest().name == std::string("memory"));
  CHECK(bound_of(result, peak, 3.5).largest().name == std::string("input"));
  NetworkSpeed network;
  network.barrier_s = 1e-3;
  network.allreduce_bytes = 12'000'000;
  network.allreduce_bus_bytes = 20'000'000;
  network.allreduce_s = 4;
  network.halo_bytes = 3'000'000;
  network.halo_s = 0.5;
  result.network = network;
  CHECK(network.algorithm_bandwidth() == 3'000'000);
  CHECK(network.bus_bandwidth() == 5'000'000);
  CHECK(network.halo_bandwidth() == 6'000'000);
  CHECK(seconds("reduction") == 4);
  CHECK(seconds("halo") == 0.5);
  std::ostringstream text;
  print_result(text, result, peak, 1);
  for (const char* line :
       {"\n  network     barrier 1.000 ms; all-reduce of 12.000 MB 4000.000 ms, 0.003 GB/s, bus "
        "0.005 GB/s; halos of 3.000 MB 500.000 ms, 0.006 GB/s\n",
        "\n  bound, ms   compute 2000.000, memory 3000.000, halo 500.000, reduction 4000.000; the "
        "mean step takes 2.00 times the largest (reduction)\n"}) {
    CAPTURE(text.str());
    CHECK(text.str().find(line) != std::string::npos);
  }
}

TEST_CASE("peak loops return the operations done") {
  const double one = run_multiply_adds(1);
  CHECK(one > 0);
  CHECK(run_multiply_adds(1000) == 1000 * one);
  if (cpu_computes_bf16()) CHECK(run_bfloat16_products(2048) == 2 * 2.0 * 512 * 512 * 512);
  Triad triad(4096);
  CHECK(triad.run() == 3 * 4096);
}

TEST_CASE("a small run: phases add up to the step, and the report names them") {
  // Of two steps on one rank, the median is the mean.
  const Options options = parsed({"--input", "8x8x8x2", "--filters", "4", "--conv-layers", "2",
                                  "--fc", "8", "--targets", "3", "--steps", "2", "--evaluate"});
  const Comm& world = test_world();
  REQUIRE(world.size() == 1);
  const BenchPlan plan = read_bench_plan(options, world.size());
  const double begin = MPI_Wtime();
  const BenchResult result = run_case(world, options, plan, plan.cases.at(0));
  const double elapsed_s = MPI_Wtime() - begin;
  double sum = 0, flops = 0;
  std::map<Phase, double> seconds, flops_of;
  for (const PhaseRow& row : result.rows) {
    CAPTURE(name_of(row.key.phase));
    sum += row.mean_s;
    flops += row.work.flops;
    seconds[row.key.phase] += row.mean_s;
    flops_of[row.key.phase] += row.work.flops;
    CHECK(row.max_s == row.mean_s);
    CHECK((row.received_bytes == 0 || row.key.phase == Phase::kReductionWait));
  }
  // Sums of at most 100 numbers in double.
  CHECK(std::abs(sum - result.step_s.median) <= 1e-13 * sum);
  CHECK(std::abs(sum - result.mean_step_s) <= 1e-13 * sum);
  CHECK(2 * sum <= elapsed_s);
  CHECK(result.samples_per_s.max == 1 / result.step_s.min);
  REQUIRE(result.evaluated_per_s);
  CHECK(3 * 2 / result.evaluated_per_s->max <= elapsed_s);
  // Of 2 operations each: conv1 512 voxels x 8 taps x 2 x 4, conv2 64 x 8 x 4 x 8; fc1 64 x 8, fc2.
  const double conv1 = 2.0 * 512 * 8 * 2 * 4, others = 2.0 * (64 * 8 * 4 * 8 + 64 * 8 + 8 * 3);
  CHECK(flops_of[Phase::kForward] >= conv1 + others);
  CHECK(flops_of[Phase::kBackwardParameters] == conv1 + others);
  CHECK(result.flops == flops);
  for (const Phase phase : {Phase::kInputWait, Phase::kForward, Phase::kLoss, Phase::kBackwardData,
                            Phase::kOptimizer, Phase::kOther})
    CHECK(seconds[phase] > 0);
  CHECK(result.input_wait.mean == doctest::Approx(seconds[Phase::kInputWait] / sum));
  CHECK(result.max_memory_bytes == result.sum_memory_bytes);
  CHECK_FALSE(result.implementations.empty());
  CHECK_FALSE(result.network);  // of one rank there is none
  MachinePeak peak;
  peak.fp32 = peak.triad = 1e9;
  std::ostringstream text;
  print_result(text, result, peak, 1);
  for (const std::string named :
       {"\n  conv1 +forward +[0-9]", "x training", "\n +mean step +[0-9]", "kernels conv2: "}) {
    CAPTURE(named);
    CHECK(std::regex_search(text.str(), std::regex(named)));
  }
}

}  // namespace
}  // namespace halomesh
