// SPDX-License-Identifier: Apache-2.0
// The command bench under the launcher: two meshes on two ranks, and its figures.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

using Json = nlohmann::json;

Arguments small_bench(const fs::path& json) {
  return {{"input", "32x32x32x4"}, {"conv-layers", "3"},
          {"filters", "4"},        {"fc", "8"},
          {"targets", "4"},        {"parts", "1x1x1,2x1x1,3x1x1"},
          {"batch", "2"},          {"steps", "3"},
          {"warm-up", "1"},        {"evaluate", ""},
          {"json", json.string()}};
}

void check_positive(const Json& object, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    CAPTURE(name);
    REQUIRE(object.contains(name));
    CHECK(object[name].get<double>() > 0);
  }
}

double number(const Json& object, const char* name) { return object.at(name).get<double>(); }

// What a run reports must follow from its own figures; all are written with all their digits.
void check_run(const Json& run, double peak_flops) {
  CAPTURE(run["parts"].get<std::string>());
  constexpr double kBatch = 2;
  const Json &steps = run.at("step_seconds"), &samples = run.at("samples_per_second"),
             &evaluated = run.at("evaluated_samples_per_second");
  const double mean_s = number(run, "mean_step_seconds");
  // Ranks differ: the slowest decides a step, the mean is over all.
  CHECK(mean_s <= number(steps, "max") * (1 + 1e-12));
  CHECK(mean_s > 0);
  // Of three steps.
  CHECK(number(samples, "median") == doctest::Approx(kBatch / number(steps, "median")));
  CHECK(number(samples, "max") == doctest::Approx(kBatch / number(steps, "min")));
  CHECK(number(run, "evaluation_to_training") ==
        doctest::Approx(number(evaluated, "median") / number(samples, "median")));
  CHECK(number(run, "flops_per_second") == doctest::Approx(number(run, "flops") / mean_s));
  CHECK(number(run, "peak_fraction") ==
        doctest::Approx(number(run, "flops_per_second") / peak_flops));
  const Json& memory = run.at("peak_memory");
  CHECK(number(memory, "max_bytes_of_a_process") <= number(memory, "sum_bytes"));
  CHECK(number(memory, "sum_bytes") <= 2 * number(memory, "max_bytes_of_a_process"));
  CHECK(!run.at("kernels").empty());
  double seconds = 0, flops = 0;
  std::map<std::string, double> seconds_of;
  for (const Json& phase : run.at("phases")) {
    seconds += number(phase, "seconds_mean_over_ranks");
    flops += number(phase, "flops");
    seconds_of[phase.at("kind").get<std::string>()] += number(phase, "seconds_mean_over_ranks");
    CHECK(number(phase, "seconds_max_over_ranks") <= 2 * number(phase, "seconds_mean_over_ranks"));
  }
  CHECK(seconds == doctest::Approx(mean_s).epsilon(1e-12));
  CHECK(flops == number(run, "flops"));
  for (const char* kind : {"compute", "packing", "reduction wait", "input wait", "optimizer"}) {
    CAPTURE(kind);
    CHECK(seconds_of[kind] > 0);
  }
}

/// What the network could do must follow from its figures and those of the steps.
void check_network(const Json& run) {
  CAPTURE(run["parts"].get<std::string>());
  const Json &network = run.at("network"), &sums = network.at("allreduce"),
             &halo = network.at("halo"), &bound = run.at("bound");
  CHECK(number(network, "barrier_seconds") > 0);
  CHECK(number(sums, "algorithm_bandwidth") ==
        doctest::Approx(number(sums, "bytes") / number(sums, "seconds")));
  // A ring of two ranks moves as many bytes as are summed.
  CHECK(number(sums, "bus_bandwidth") <= number(sums, "algorithm_bandwidth") * (1 + 1e-12));
  CHECK(number(bound, "reduction_seconds") == number(sums, "seconds"));
  CHECK(number(bound, "halo_seconds") == number(halo, "seconds"));
  CHECK(bound.at("input_seconds").is_null());
  double halo_bytes = 0, largest = 0;
  for (const Json& phase : run.at("phases"))
    if (phase["kind"] == "halo wait") halo_bytes += number(phase, "received_bytes");
  CHECK(number(halo, "bytes") == halo_bytes);
  for (const char* name : {"compute", "memory", "halo", "reduction"})
    largest = std::max(largest, number(bound, (std::string(name) + "_seconds").c_str()));
  CHECK(largest > 0);
  CHECK(number(bound, "bound_seconds") == largest);
  CHECK(number(bound, (bound["limited_by"].get<std::string>() + "_seconds").c_str()) == largest);
  CHECK(number(bound, "step_to_bound") ==
        doctest::Approx(number(run, "mean_step_seconds") / largest));
}

double received(const Json& run, const std::string& phase, const std::string& layer) {
  double bytes = 0;
  for (const Json& row : run.at("phases"))
    if (row["phase"] == phase && row["layer"] == layer) bytes += number(row, "received_bytes");
  return bytes;
}

}  // namespace

TEST_CASE("bench measures two meshes on two ranks and writes every figure") {
  const fs::path file = workshop().fresh("bench.json");
  const Outcome outcome = run(2, "bench", small_bench(file), 60);
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  for (const char* named :
       {"parts 3x1x1 left out", "parts 2x1x1, replicas 1, 2 ranks", "FMA peak", "triad",
        "x training", "  network     barrier ", "  bound, ms   compute "}) {
    CAPTURE(named);
    CHECK(outcome.text.find(named) != std::string::npos);
  }
  const Json record = Json::parse(read_file(file));
  for (const char* name : {"version", "git_commit", "machine", "binding", "options", "threads"})
    CHECK(record.contains(name));
  CHECK(record.at("binding").size() == 2);
  check_positive(record.at("peak"), {"fp32_flops_per_second", "triad_bytes_per_second"});
  REQUIRE(record.at("runs").size() == 2);
  const double peak = number(record["peak"], "fp32_flops_per_second");
  for (const Json& each : record["runs"]) check_run(each, peak);
  for (const Json& each : record["runs"]) check_network(each);
  const Json &replicas = record["runs"][0], &parts = record["runs"][1];
  CHECK(replicas["replicas"] == 2);
  CHECK(parts["parts"] == "2x1x1");
  // Same batch, same work, but only a cut sample has halos.
  CHECK(replicas["flops"] == parts["flops"]);
  CHECK(received(replicas, "halo wait", "conv1") == 0);
  // Of 2 samples, one plane of 16 x 16 voxels of 4 filters in fp32, which only part 0 needs; its
  // gradient returns to part 1.
  CHECK(received(parts, "halo wait", "conv1") == 2.0 * 16 * 16 * 4 * 4);
  CHECK(received(parts, "halo gradient wait", "conv1") == 2.0 * 16 * 16 * 4 * 4);
  // fc1 has 8 outputs, summed on part 0.
  CHECK(received(parts, "partial sum wait", "fc1") == 2.0 * 8 * 4);
  CHECK(number(replicas["network"]["allreduce"], "bytes") == 4 * number(replicas, "parameters"));
  CHECK(number(replicas["network"]["halo"], "bytes") == 0);
  CHECK(number(parts["network"]["halo"], "bytes") > 2 * 2.0 * 16 * 16 * 4 * 4);
  CHECK(received(replicas, "reduction wait", "") == 2 * 4 * number(replicas, "parameters"));
}

// Kernels at 1 Gflop/s a rank: their time decides a step.
TEST_CASE("an emulated step takes the time of the machine's kernels") {
  const fs::path file = workshop().fresh("bench.json"), machine = workshop().fresh("machine.ini");
  std::ofstream(machine) << "title = test\ncpu = none\nnetwork = none\n"
                            "nodes = 1 # assumed: test\ncores = 2 # assumed: test\n"
                            "ranks-per-node = 2 # assumed: test\nmemory-gib = 1 # assumed: test\n"
                            "peak-gflops = 2 # assumed: test\ntriad-gbs = 1000 # assumed: test\n"
                            "kernel-efficiency = 1 # assumed: test\npoll-ms = 1 # assumed: test\n"
                            "node-latency-us = 1 # assumed: test\n"
                            "node-message-gbs = 10 # assumed: test\n";
  Arguments arguments = small_bench(file);
  arguments["parts"] = "1x1x1";
  arguments["simulate-compute"] = machine.string();
  arguments["steps"] = "200";  // the least of many: others may use the cores
  arguments.erase("evaluate");
  const Outcome outcome = run(2, "bench", arguments, 60);
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  const Json record = Json::parse(read_file(file));
  REQUIRE(record.at("runs").size() == 1);
  const Json& run = record["runs"][0];
  const double kernels_s = number(run, "flops") / 2e9;
  CHECK(kernels_s > 5e-3);
  CHECK(number(run.at("step_seconds"), "min") >= kernels_s * (1 - 1e-3));
  CHECK(record.at("compute_times_of") == machine.stem().string());
  CHECK(run.at("last_loss") == 0.0);

  arguments["precision"] = "bf16";
  const auto in_bf16 = [&] { return test::run(2, "bench", arguments, 60); };
  const Outcome stood_in = in_bf16();
  if (stood_in.text.find("this CPU has no instructions for bf16") != std::string::npos) return;
  CAPTURE(stood_in.text);
  CHECK(stood_in.text.find("note: peak-bf16-gflops is not known: peak-gflops stands in for it") !=
        std::string::npos);
  std::ofstream(machine, std::ios::app) << "peak-bf16-gflops = 2000 # assumed: test\n"
                                           "kernel-efficiency-bf16 = 1 # assumed: test\n";
  const Outcome fast = in_bf16();
  CAPTURE(fast.text);
  REQUIRE(fast.exit_code == 0);
  CHECK(fast.text.find("bf16-gflops is not known") == std::string::npos);
  const Json bf16 = Json::parse(read_file(file)).at("runs")[0];
  CHECK(number(bf16.at("step_seconds"), "min") < kernels_s / 2);
}

TEST_CASE("bench and scaling pad samples that the network cannot halve") {
  const fs::path file = workshop().fresh("padded.json");
  Arguments padded{{"model", "unet3d"}, {"levels", "3"},         {"filters", "4"},
                   {"classes", "3"},    {"input", "9x10x13x1"},  {"pad", "-2.2"},
                   {"steps", "2"},      {"json", file.string()}, {"parts", "2x1x1"}};
  const auto measured = [&](const char* command) {
    const Outcome outcome = run(2, command, padded);
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.text.find("samples of 9x10x13x1 are padded to 12x12x16x1") != std::string::npos);
    return Json::parse(read_file(file));
  };
  const double flops = number(measured("bench").at("runs").at(0), "flops");
  padded["restart"] = "";
  padded["repeats"] = "1";
  padded["ranks"] = "2";
  CHECK(!measured("scaling").at("measurements").empty());
  for (const char* const name : {"restart", "repeats", "ranks", "pad"}) padded.erase(name);
  check_failure(run(2, "bench", padded), 2, {"9x10x13x1", "12x12x16x1", "--pad"});
  padded["input"] = "12x12x16x1";
  const Outcome whole = run(2, "bench", padded);
  REQUIRE(whole.exit_code == 0);
  CHECK(number(Json::parse(read_file(file)).at("runs").at(0), "flops") == flops);
}

TEST_CASE("bench refuses what cannot be measured before it starts") {
  const fs::path file = workshop().fresh("bench.json");
  Arguments arguments = small_bench(file);
  arguments["batch"] = "3";
  check_failure(run(2, "bench", arguments), 2, {"3", "2 replicas"});
  const fs::path nowhere = workshop().fresh("nowhere") / "b.json";
  arguments = small_bench(nowhere);
  check_failure(run(2, "bench", arguments), 1, {nowhere.string()});
  ::setenv("HALOMESH_ISA", "avx3", 1);
  const Outcome unknown_kernels = run(2, "bench", small_bench(file));
  ::unsetenv("HALOMESH_ISA");
  check_failure(unknown_kernels, 2, {"HALOMESH_ISA=avx3"});
  CHECK(!fs::exists(file));
}

}  // namespace halomesh::test
