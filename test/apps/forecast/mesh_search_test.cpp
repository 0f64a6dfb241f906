// SPDX-License-Identifier: Apache-2.0
// Forecasts of steps, runs and all meshes of a job.
#include "src/apps/forecast/mesh_search.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <string>

#include "models/cosmoflow.hpp"
#include "src/apps/forecast/measured_runs.hpp"
#include "src/nn/kernels/moments.hpp"
#include "src/nn/layers/convolution.hpp"
#include "src/nn/layers/dense.hpp"
#include "src/nn/layers/elementwise.hpp"
#include "src/nn/layers/normalize.hpp"
#include "src/nn/layers/sample_average.hpp"
#include "test/apps/forecast/machine_scene.hpp"

namespace halomesh {
namespace {

Model small_model() {
  CosmoFlowOptions options;
  options.input = {4, 32, 32, 32};
  options.conv_layers = 3;
  options.filters = 16;
  options.input_type = DataType::kInt16;
  return make_cosmoflow(options);
}

StepForecast step_on(const Machine& machine, const PartGrid& parts, std::int64_t replicas,
                     const ForecastOptions& options = {}) {
  const Model model = small_model();
  return forecast_step(machine, model, model.geometry(parts), {replicas, parts}, 1, options);
}

double sum_of_terms(const StepForecast& f) {
  return f.compute_s + f.halo_s + f.gather_s + f.reduction_s + f.straggler_s + f.input_s;
}

Job job_of(std::int64_t nodes, std::int64_t batch) {
  Job job;
  job.nodes = nodes;
  job.work.batch = batch;
  job.work.training_samples = 1024;
  job.work.validation_samples = 256;
  job.work.sample_bytes = 1e6;
  job.work.epochs = {5, 10, 20};
  return job;
}

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("one rank only computes, and its terms are the step") {
  const Machine machine = machine_of(kSmallMachine);
  const StepForecast f = step_on(machine, {1, 1, 1}, 1);
  CHECK(f.compute_s > 0);
  CHECK(f.halo_s == 0);
  CHECK(f.gather_s == 0);
  CHECK(f.reduction_s == 0);
  CHECK(f.straggler_s == 0);
  CHECK(f.step_s == doctest::Approx(sum_of_terms(f)));
  CHECK(f.kernel_shares[2] == doctest::Approx(1));
  CHECK(f.low_s < f.step_s);
  CHECK(f.high_s > f.step_s);
  ForecastOptions evaluation;
  evaluation.training = false;
  CHECK(step_on(machine, {1, 1, 1}, 1, evaluation).step_s < f.step_s / 2);
}

TEST_CASE("what an optimizer reads and writes counts in the time") {
  Machine machine = machine_of(kSmallMachine);
  machine.kernels.rates.triad = 1e9;
  ForecastOptions adam;
  adam.update_traffic = 7;
  const StepForecast f = step_on(machine, {1, 1, 1}, 1, adam);
  const StepForecast sgd = step_on(machine, {1, 1, 1}, 1);
  const Model model = small_model();
  const double held = static_cast<double>(model.geometry({1, 1, 1}).parameter_count(0));
  CHECK(held > 1e4);
  CHECK(f.compute_s - sgd.compute_s == doctest::Approx((7 - 5) * 4 * held / 1e9));
}

TEST_CASE("cuts divide the computation and cost messages") {
  const Machine machine = machine_of(kSmallMachine);
  const StepForecast whole = step_on(machine, {1, 1, 1}, 1);
  for (const PartGrid& parts : {PartGrid{2, 1, 1}, PartGrid{2, 2, 1}, PartGrid{1, 2, 2}}) {
    CAPTURE(to_string(parts));
    const StepForecast f = step_on(machine, parts, 1);
    CHECK(f.compute_s < whole.compute_s / 1.5);
    CHECK(f.compute_s > whole.compute_s / 4.5);
    CHECK(f.halo_s > 0);
    CHECK(f.step_s == doctest::Approx(sum_of_terms(f)));
  }
  const StepForecast near = step_on(machine, {2, 2, 1}, 1);
  // These messages cost 76 us at the full rate. 25 of them are the CPU time of their ends, which
  // does not depend on the rate, so that a tenth of it costs less than twice as much, 146 us, and a
  // twentieth 272 us.
  const StepForecast slow = step_on(with_number_scaled(machine, "message-gbs", 0.05), {2, 2, 1}, 1);
  CHECK(slow.halo_s + slow.gather_s > 2 * (near.halo_s + near.gather_s));
  CHECK(slow.compute_s == doctest::Approx(near.compute_s));
}

TEST_CASE("replicas add sums of gradients and waiting for the slowest") {
  const Machine machine = machine_of(kSmallMachine);
  const StepForecast f = step_on(machine, {1, 1, 1}, 16);
  CHECK(f.reduction_s > 0);
  CHECK(f.straggler_s ==
        doctest::Approx(4 * 0.012 * (f.compute_s + f.reduction_s)));  // 4 doublings
  ForecastOptions tree;
  tree.reduction = Reduction::kBinomial;
  CHECK(step_on(machine, {1, 1, 1}, 16, tree).reduction_s > 1.2 * f.reduction_s);
  // A rank that polls seldom sums slowly only while it computes.
  const StepForecast seldom = step_on(with_number_scaled(machine, "poll-ms", 1000), {1, 1, 1}, 16);
  CHECK(seldom.reduction_s >= f.reduction_s);
  CHECK(seldom.reduction_s < f.reduction_s + f.compute_s);
}

TEST_CASE("halos that leave before the layer is done wait less") {
  Machine machine = machine_of(kSmallMachine);
  machine = with_number_scaled(machine, "message-gbs", 0.05);
  ForecastOptions late;
  late.early_sends = false;
  const StepForecast early = step_on(machine, {1, 4, 1}, 1);
  const StepForecast with_layer = step_on(machine, {1, 4, 1}, 1, late);
  CHECK(early.compute_s == doctest::Approx(with_layer.compute_s));
  CHECK(early.halo_s + early.gather_s < 0.98 * (with_layer.halo_s + with_layer.gather_s));
}

TEST_CASE("a batch normalized together waits for a tree of its replicas in each direction") {
  const Machine machine = machine_of(kSmallMachine);
  const auto gather_us = [&](std::int64_t together, const PartGrid& parts, bool training = true) {
    Model model({2, 8, 8, 8});
    model.add("conv", std::make_unique<Convolution>(
                          ConvolutionOptions{16, WindowOptions::cube(3, 1, PaddingKind::kSame)}));
    model.add("moments", std::make_unique<Moments>());
    if (together > 0) model.add("mean", std::make_unique<SampleAverage>(together));
    const std::size_t moments = together > 0 ? 3 : 2;
    model.add("norm", std::make_unique<Normalize>(1e-5F, DataType::kFloat32, together),
              {1, moments});
    ForecastOptions options;
    options.training = training;
    return 1e6 *
           forecast_step(machine, model, model.geometry(parts), {8, parts}, 1, options).gather_s;
  };
  // There and back, 8 replicas and 32 doubles: 2 x 6 messages of 2 us and 256 bytes at 5 GB/s.
  CHECK(gather_us(8, {1, 1, 1}) == doctest::Approx(12 * (2 + 256 / 5e3)));
  CHECK(gather_us(2, {1, 1, 1}) == doctest::Approx(4 * (2 + 256 / 5e3)));
  CHECK(gather_us(1, {1, 1, 1}) == 0);
  CHECK(gather_us(8, {1, 1, 1}, false) == 0);
}

TEST_CASE("outputs that are computed again take the time of their kernels and halos again") {
  const Machine machine = machine_of(kSmallMachine);
  Model model({2, 16, 16, 16}), front({2, 16, 16, 16});
  const auto convolution = [] {
    return std::make_unique<Convolution>(
        ConvolutionOptions{16, WindowOptions::cube(3, 1, PaddingKind::kSame)});
  };
  // Backward, the second convolution reads what the first layers made long before.
  for (Model* const each : {&model, &front}) {
    each->add("conv", convolution());
    each->add("act", std::make_unique<Elementwise>(ElementFunction::leaky_relu(0.5F)));
  }
  model.add("next", convolution());
  model.add("fc", std::make_unique<Dense>(3));
  const auto forecast = [&](const Model& network, const PartGrid& parts, MemoryUse memory,
                            bool training) {
    ForecastOptions options;
    options.memory = memory;
    options.training = training;
    return forecast_step(machine, network, network.geometry(parts), {1, parts}, 1, options);
  };
  const StepForecast kept = forecast(model, {1, 1, 1}, MemoryUse::kShared, true);
  const StepForecast again = forecast(model, {1, 1, 1}, MemoryUse::kRecomputed, true);
  const double overhead_s = machine.value("step-overhead-ms") * 1e-3;
  const double front_s =
      forecast(front, {1, 1, 1}, MemoryUse::kShared, false).compute_s - overhead_s;
  CHECK(front_s > 0);
  CHECK(again.compute_s - kept.compute_s == doctest::Approx(front_s));
  CHECK(forecast(model, {2, 1, 1}, MemoryUse::kRecomputed, true).halo_s >
        1.2 * forecast(model, {2, 1, 1}, MemoryUse::kShared, true).halo_s);
  // An evaluation keeps nothing for backward.
  CHECK(forecast(model, {2, 1, 1}, MemoryUse::kRecomputed, false).step_s ==
        doctest::Approx(forecast(model, {2, 1, 1}, MemoryUse::kShared, false).step_s));
}

TEST_CASE("the loss of an output that several parts own waits for their sums") {
  const Machine machine = machine_of(kSmallMachine);
  Model model({2, 8, 8, 8});
  model.add("conv", std::make_unique<Convolution>(
                        ConvolutionOptions{16, WindowOptions::cube(3, 1, PaddingKind::kSame)}));
  for (const bool training : {true, false}) {
    ForecastOptions options;
    options.training = training;
    const auto gather_us = [&](const PartGrid& parts) {
      return 1e6 *
             forecast_step(machine, model, model.geometry(parts), {1, parts}, 1, options).gather_s;
    };
    CHECK(gather_us({1, 1, 1}) == 0);
    CHECK(gather_us({2, 1, 1}) == doctest::Approx(2 * 2));
    CHECK(gather_us({2, 2, 1}) == doctest::Approx(4 * 2));
  }
}

TEST_CASE("constants fitted to runs of one node meet them and predict a third") {
  std::string text = kSmallMachine;
  text.replace(text.find("network = torus"), 15, "network = none");
  text += "straggler-per-doubling = 0 # measured: T\n";
  text.replace(text.find("triad-gbs = 20"), 14, "triad-gbs = 2000");  // no kernel bound by memory
  const Machine machine = machine_of(text);
  Machine real = machine;  // what the runs are made with
  real.set({"kernel-efficiency", 0.2, Origin::kAssumed, "T", "T"});
  real.set({"step-overhead-ms", 3, Origin::kAssumed, "T", "T"});
  real.derive();
  const Model model = small_model();
  std::vector<MeasuredRun> runs;
  for (const PartGrid& parts : {PartGrid{1, 1, 1}, PartGrid{2, 1, 1}, PartGrid{2, 2, 1}}) {
    MeasuredRun run;
    run.mesh = {1, parts};
    run.threads = 1;
    run.step_s = predicted_step_s(real, model, run);
    runs.push_back(run);
  }
  const Machine fitted = fit_to_runs(machine, model, {runs[0], runs[1]});
  CHECK(fitted.value("kernel-efficiency") == doctest::Approx(0.2).epsilon(0.02));
  CHECK(fitted.value("step-overhead-ms") == doctest::Approx(3).epsilon(0.05));
  CHECK(predicted_step_s(fitted, model, runs[2]) == doctest::Approx(runs[2].step_s).epsilon(0.01));
  // Runs that no constant explains are met by kernels alone.
  runs[1].step_s = runs[0].step_s / 4;
  CHECK(fit_to_runs(machine, model, {runs[0], runs[1]}).value("step-overhead-ms") == 0);
  CHECK_THROWS_AS(fit_to_runs(machine, model, {}), UsageError);
}

TEST_CASE("ranks that share cores compute longer") {
  Machine machine = machine_of(kSmallMachine);
  machine.derive(4);
  const double alone = step_on(machine, {1, 1, 1}, 4).compute_s;
  machine.derive(16);
  const StepForecast shared = step_on(machine, {1, 1, 1}, 16);
  CHECK(shared.compute_s == doctest::Approx(4 * alone));
  // What slows a rank slows all on its core, so 16 ranks on 4 cores count as 4: two doublings.
  CHECK(shared.straggler_s == doctest::Approx(2 * 0.012 * (shared.compute_s + shared.reduction_s)));
  // Parts of one sample wait for each other in every layer, on cores of their own or not.
  const StepForecast parts = step_on(machine, {2, 2, 2}, 2);
  CHECK(parts.straggler_s ==
        doctest::Approx(3 * 0.012 * (parts.step_s - parts.straggler_s - parts.input_s)));
}

TEST_CASE("ranks that share cores pack, copy and add longer") {
  Machine machine = machine_of(kSmallMachine);
  machine.derive(4);
  const StepForecast alone = step_on(machine, {2, 2, 1}, 4);
  machine.derive(16);
  const StepForecast shared = step_on(machine, {2, 2, 1}, 4);
  CHECK(shared.halo_s == doctest::Approx(4 * alone.halo_s));
  CHECK(shared.reduction_s > 2 * alone.reduction_s);
}

TEST_CASE("all meshes that the batch allows, best first") {
  const Machine machine = machine_of(kSmallMachine);
  const Model model = small_model();
  const MeshSearch search(machine, model, job_of(16, 8));
  const std::vector<MeshForecast> all = search.forecasts();
  // 2, 4, 8 and 16 parts: 3 + 6 + 10 + 15 grids.
  CHECK(all.size() == 34);
  std::set<std::string> seen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    seen.insert(to_string(all[i].mesh.parts));
    CHECK(all[i].mesh.ranks() == 16);
    CHECK(all[i].local_batch * all[i].mesh.replicas == 8);
    CHECK(all[i].run.total_s.low < all[i].run.total_s.mid);
    CHECK(all[i].run.total_s.mid < all[i].run.total_s.high);
    if (i > 0) CHECK(all[i - 1].run.total_s.mid <= all[i].run.total_s.mid);
  }
  CHECK(seen.size() == 34);
  REQUIRE(search.hints().size() == 1);
  CHECK(search.hints()[0] ==
        "1 part per sample: 16 replicas do not divide batch 8; use --batch 16");
  const MeshForecast& best = all.front();
  CHECK(best.run.epoch_s == doctest::Approx(128 * best.step.step_s));
  CHECK(best.run.evaluation_s == doctest::Approx(32 * best.evaluation.step_s));
  CHECK(best.run.total_s.mid ==
        doctest::Approx(10 + 10 * (best.run.epoch_s + best.run.evaluation_s)));
  CHECK(reasons(best, all.back()).size() == 2);
  const std::vector<Sensitivity> varied = search.sensitivities(all);
  REQUIRE(varied.size() > 3);
  std::set<std::string> numbers;
  for (const Sensitivity& s : varied) numbers.insert(s.number);
  CHECK(numbers.contains("kernel-efficiency"));
  CHECK(numbers.contains("poll-ms"));           // a default of the program
  CHECK_FALSE(numbers.contains("latency-us"));  // measured
}

TEST_CASE("jobs that a machine cannot run are refused") {
  const Machine machine = machine_of(kSmallMachine);
  const Model model = small_model();
  CHECK(refusal([&] { MeshSearch(machine, model, job_of(17, 17)); }) ==
        "mine has 16 nodes, not 17 | give --nodes 16 or less, or a machine file with more nodes");
  CHECK(refusal([&] { MeshSearch(machine, model, job_of(7, 3)); }) ==
        "nothing was thrown");  // 7x1x1 x 1
  Job few = job_of(7, 3);
  few.max_parts = 4;
  CHECK(refusal([&] { MeshSearch(machine, model, few); }) ==
        "7 ranks and batch 3 have no mesh of at most 4 parts per sample | 1 part per sample: 7 "
        "replicas do not divide batch 3; use --batch 7");
}

TEST_CASE("meshes that do not fit the memory come last") {
  Machine machine = machine_of(kSmallMachine);  // 8 GiB
  machine.derive(4);
  const Model model = small_model();
  Job job = job_of(1, 4);
  job.memory = [](const Machine&, const ModelGeometry&, const MeshShape& mesh, std::int64_t) {
    const std::int64_t bytes = (std::int64_t{4} << 30) / mesh.parts.count();
    return MemoryNeed{bytes, bytes};
  };
  const auto some = MeshSearch(machine, model, job).forecasts();
  REQUIRE(some.size() > 2);
  CHECK(some.front().fits);  // 2 or 4 parts
  CHECK_FALSE(some.back().fits);
  for (const MeshForecast& f : some) {
    CHECK(f.memory_bytes == (std::int64_t{4} << 30) / f.mesh.parts.count());
    CHECK(f.fits == (f.memory_bytes <= std::int64_t{2} << 30));
  }
}

TEST_CASE("the fewest nodes that hold a sample, whatever the job's batch and nodes are") {
  Machine machine = machine_of(kSmallMachine);  // 8 GiB
  machine.derive(4);
  const Model model = small_model();
  const auto least = [&](double gib_of_sample) {
    Job job = job_of(16, 64);
    job.memory = [=](const Machine&, const ModelGeometry&, const MeshShape& mesh,
                     std::int64_t batch) {
      const auto bytes = static_cast<std::int64_t>(gib_of_sample * 0x1p30) * batch /
                         std::min<std::int64_t>(mesh.parts.count(), 16);
      return MemoryNeed{bytes, bytes};
    };
    return MeshSearch(machine, model, job).least_nodes();
  };
  CHECK(least(4)->nodes == 1);
  CHECK(least(8)->nodes == 1);
  CHECK(to_string(least(8)->parts) == "4x1x1");
  CHECK(least(8)->memory_bytes == std::int64_t{2} << 30);
  CHECK(least(8.1)->nodes == 2);
  CHECK(least(20)->nodes == 3);
  CHECK(to_string(least(20)->parts) == "12x1x1");
  CHECK_FALSE(least(33));
}

TEST_CASE("outputs are computed again on meshes that would not fit otherwise") {
  Machine machine = machine_of(kSmallMachine);  // 8 GiB
  machine.derive(4);
  const Model model = small_model();
  Job job = job_of(1, 4);
  job.memory = [](const Machine&, const ModelGeometry&, const MeshShape& mesh, std::int64_t) {
    const std::int64_t bytes = (std::int64_t{3} << 30) / mesh.parts.count();
    return MemoryNeed{bytes, bytes / 2};
  };
  const auto all = MeshSearch(machine, model, job).forecasts();
  REQUIRE(all.size() > 2);
  for (const MeshForecast& f : all) {
    const bool whole = f.mesh.parts.count() == 1;
    CHECK(f.fits);
    CHECK(f.recomputes == whole);
    CHECK(f.memory_bytes == (std::int64_t{3} << 30) / f.mesh.parts.count() / (whole ? 2 : 1));
  }
}

TEST_CASE("epochs between the rows of a table") {
  const EpochTable table(source_jobscripts() / "machines/epochs-cosmoflow.csv");
  CHECK(table.epochs(512).mid == 100);
  CHECK(table.epochs(16).mid == 51);
  CHECK(table.epochs(9999).high == 253);
  CHECK(table.epochs(128).mid == doctest::Approx((51 + 70) / 2.0));
  CHECK(table.basis(128) == "between batches 64 and 256");
  const TempDirectory directory;
  const auto refused = [&](const std::string& rows) {
    std::ofstream(directory / "e.csv") << "batch,low,mid,high,source\n" << rows;
    return refusal([&] { EpochTable(directory / "e.csv"); });
  };
  CHECK(refused("64,50,40,60,s\n").find("e.csv:2: batches or epochs are not in ascending") !=
        std::string::npos);
  CHECK(refused("64,50,x,60,s\n").find("e.csv:2: 'x' is not a number") != std::string::npos);
  CHECK(refused("64,50,60,s\n").find("e.csv:2: 4 values") != std::string::npos);
}

}  // namespace halomesh
