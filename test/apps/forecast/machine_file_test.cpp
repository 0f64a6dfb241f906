// SPDX-License-Identifier: Apache-2.0
// Machine files: the two formats, their mistakes, and what every file of ours must hold.
#include "src/apps/forecast/machine_file.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "src/apps/forecast/platform.hpp"
#include "test/apps/forecast/machine_scene.hpp"

namespace halomesh {
namespace {

std::string without(const std::string& text, const std::string& line) {
  std::string rest = text;
  const auto at = rest.find(line);
  REQUIRE(at != std::string::npos);
  return rest.erase(at, rest.find('\n', at) + 1 - at);
}

std::string holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos ? part : text;
}

const std::string kJson = R"({"name": "here", "cpu": "one", "cores": 4, "ranks_per_node": 2,
  "peak": {"fp32_flops_per_second": 5e10, "triad_bytes_per_second": 1e10},
  "network": {"within_node": {"latency_s": 1e-6, "s_per_byte": 2e-10}, "between_nodes": null,
              "poll_s": 1e-3, "copy_s_per_byte": 1e-10},
  "kernels": [{"kernel": "k", "pass": "backward data", "src": "4x4x4x8", "dst": "2x2x2x16",
               "batch": 1, "threads": 2, "seconds": 0.5, "flops": 1e10, "bytes": 10}],
  "step_spread": {"per_doubling": 0.02, "kernel_time_factor": 1.1}, "input": null})";

}  // namespace

TEST_CASE("every machine of ours is read, and says where its numbers come from") {
  const auto names = machine_names(source_jobscripts());
  REQUIRE(names.size() >= 3);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Machine machine = load_machine(name, source_jobscripts());
    CHECK(machine.numbers.size() >= 15);
    CHECK(machine.interconnect != Interconnect::kNone);
    CHECK(machine.network.between_nodes.seconds(1e6) > 0);
    for (const MachineNumber& number : machine.numbers) CHECK(number.source.size() > 4);
    CHECK(platform_xml(machine, 64).find("<cluster") != std::string::npos);
  }
  const Machine fugaku = load_machine("fugaku", source_jobscripts());
  CHECK(fugaku.threads() == 12);
  CHECK(fugaku.kernels.rates.peak_flops == doctest::Approx(6758e9 / 4));
  CHECK_THROWS_AS(load_machine("fugako", source_jobscripts()), UsageError);
}

TEST_CASE("a machine file that lacks a number or holds an absurd one is refused") {
  CHECK(machine_refusal(kSmallMachine) == "nothing was thrown");
  CHECK(machine_refusal(without(kSmallMachine, "cores")) ==
        "mine.ini: cores is missing | add cores, cores of a node between 1 and 4096; halomesh plan "
        "--machine template prints a whole file");
  CHECK(machine_refusal(without(without(kSmallMachine, "latency-us"), "nodes"))
            .starts_with("mine.ini: nodes, latency-us are missing | add nodes, nodes between 1 and "
                         "10000000; latency-us, us of a message between nodes between 0.05 and "));
  CHECK(machine_refusal(kSmallMachine + "add-gbs = -3 # assumed: T\n") ==
        "mine.ini:14: add-gbs = -3 is absurd | give GB/s of received values that a rank adds "
        "between 0.01 and 10000");
  CHECK(machine_refusal(kSmallMachine + "add-gbs = 3\n") ==
        "mine.ini:14: add-gbs = 3 does not say where it comes from | end the line with # measured: "
        "SOURCE (or published, derived, assumed)");
  CHECK(machine_refusal(kSmallMachine + "add-gps = 3 # assumed: T\n") ==
        "mine.ini:14: unknown name add-gps | did you mean add-gbs?");
  CHECK(machine_refusal(kSmallMachine + "cores = 3 # assumed: T\n") ==
        "mine.ini:14: cores is given twice | give it once");
  CHECK(machine_refusal(kSmallMachine + "add-gbs = many # assumed: T\n") ==
        "mine.ini:14: add-gbs = 'many' is not a number | give one number per line");
  CHECK(machine_refusal("network = ring\n").starts_with("mine.ini:1: unknown network 'ring'"));
}

TEST_CASE("the template is a whole file") {
  const Machine example = load_machine("xeon-slurm", source_jobscripts());
  const Machine read = machine_of(machine_template(example), "mine.ini");
  CHECK(read.numbers.size() >= example.numbers.size());
  for (const MachineNumber& number : read.numbers)
    CHECK(number.value == example.value(number.name));
  CHECK(read.interconnect == example.interconnect);
  CHECK(read.shape == example.shape);
}

TEST_CASE("a calibration is read") {
  const Machine machine = machine_of(kJson, "mine.json");
  CHECK(machine.interconnect == Interconnect::kNone);
  CHECK(machine.value("nodes") == 1);
  CHECK(machine.value("peak-gflops") == doctest::Approx(100));
  CHECK(machine.value("kernel-efficiency") == doctest::Approx(0.4));  // 1e10 / 0.5 s / 5e10
  CHECK(machine.network.within_node.s_per_byte == doctest::Approx(2e-10));
  CHECK(machine.network.poll_s == doctest::Approx(1e-3));
  CHECK(machine.kernel_time_factor() == doctest::Approx(1.1));
  CHECK(machine.kernels.size() == 1);
  CHECK(machine.kernel_cpu == "one");
  const auto damaged = [](const std::string& from, const std::string& to) {
    std::string text = kJson;
    text.replace(text.find(from), from.size(), to);
    return machine_refusal(text, "mine.json");
  };
  CHECK(
      damaged("\"cores\": 4, ", "") ==
      "mine.json: cores is missing | add cores, cores of a node between 1 and 4096; halomesh plan "
      "--machine template prints a whole file");
  CHECK(holds(damaged("5e10", "-5e10"),
              "mine.json: /peak/fp32_flops_per_second: peak-gflops = -100 is absurd") ==
        "mine.json: /peak/fp32_flops_per_second: peak-gflops = -100 is absurd");
  CHECK(damaged("5e10", "\"fast\"")
            .starts_with("mine.json: /peak/fp32_flops_per_second is not a number"));
  CHECK(damaged("\"seconds\": 0.5", "\"seconds\": 0").starts_with("mine.json: /kernels/0: "));
  CHECK(damaged("4x4x4x8", "4x4").starts_with("mine.json: /kernels/0: "));
  CHECK(damaged("backward data", "sideways")
            .starts_with("mine.json: /kernels/0: unknown pass 'sideways'"));
  CHECK(damaged("{\"name\"", "[").starts_with("mine.json is not a JSON object"));
}

TEST_CASE(
    "kernels in bf16 have a peak and an efficiency of their own, or a note names the stand-ins") {
  const TempDirectory directory;
  const auto loaded = [&](const std::string& more, DataType precision) {
    const std::filesystem::path file = directory / "mine.ini";
    std::ofstream(file) << kSmallMachine + more;
    return load_machine(file.string(), source_jobscripts(), precision);
  };
  const std::string peak = "peak-bf16-gflops = 1600 # published: T\n";
  const std::string share = "kernel-efficiency-bf16 = 0.25 # measured: T\n";
  const auto rate = [](const Machine& machine) {
    return machine.kernels.rates.peak_flops * machine.kernels.rates.efficiency;
  };
  const Machine fp32 = loaded(peak + share, DataType::kFloat32);
  const Machine bf16 = loaded(peak + share, DataType::kBfloat16);
  const Machine half = loaded(peak, DataType::kBfloat16), bare = loaded("", DataType::kBfloat16);
  CHECK(rate(fp32) == doctest::Approx(50e9));
  CHECK(rate(bf16) == doctest::Approx(400e9));
  CHECK(rate(half) == doctest::Approx(800e9));
  CHECK(rate(bare) == doctest::Approx(50e9));
  const auto stand_ins = [](const Machine& machine) {
    return std::count_if(machine.notes.begin(), machine.notes.end(), [](const std::string& note) {
      return note.find("bf16") != std::string::npos;
    });
  };
  CHECK(stand_ins(fp32) == 0);
  CHECK(stand_ins(bf16) == 0);
  REQUIRE(stand_ins(half) == 1);
  REQUIRE(stand_ins(bare) == 2);
  CHECK(bare.notes[0] ==
        "peak-bf16-gflops is not known: peak-gflops stands in for it, as bf16 may be computed in "
        "fp32");
  CHECK(bare.notes[1] == half.notes[0]);
  // Where products of bf16 are slow, those of fp32 are computed: a lower peak has no effect.
  const Machine slow =
      loaded("peak-bf16-gflops = 60 # published: T\n" + share, DataType::kBfloat16);
  CHECK(rate(slow) == doctest::Approx(25e9));
  CHECK(slow.notes[0].starts_with("peak-bf16-gflops is lower: "));
  std::string calibration = kJson;
  calibration.replace(calibration.find("\"peak\": {"), 9,
                      "\"precision\": \"bf16\", \"peak\": {\"bf16_flops_per_second\": 1e11,");
  const Machine measured = machine_of(calibration, "mine.json");
  CHECK(measured.value("peak-bf16-gflops") == doctest::Approx(200));
  CHECK(measured.value("kernel-efficiency-bf16") == doctest::Approx(0.2));
  CHECK(measured.value("kernel-efficiency") == doctest::Approx(0.3));  // assumed
}

TEST_CASE("kernel times of another CPU are scaled, and the machine says so") {
  const TempDirectory directory;
  std::ofstream(directory / "kernels.json") << kJson;
  KernelCase call;
  call.kernel = "k";
  call.pass = KernelPass::kBackwardData;
  call.src = {8, 4, 4, 4};
  call.dst = {16, 2, 2, 2};
  call.threads = 2;
  Machine same = machine_of(kSmallMachine);
  add_kernels(same, directory / "kernels.json");
  CHECK(same.notes.empty());
  CHECK(same.kernels.time(call).seconds == 0.5);
  std::string other_cpu = kSmallMachine;
  other_cpu.replace(other_cpu.find("cpu = one"), 9, "cpu = two");
  Machine other = machine_of(other_cpu);
  add_kernels(other, directory / "kernels.json");
  REQUIRE(other.notes.size() == 1);
  CHECK(other.notes[0].find("another CPU (one, not two)") != std::string::npos);
  CHECK(other.kernels.time(call).seconds == doctest::Approx(0.25));  // 50 of 100 Gflop/s
}

TEST_CASE("platforms of SimGrid") {
  const Machine torus = machine_of(kSmallMachine);
  const std::string xml = platform_xml(torus, 12);
  CHECK(xml.find("topology=\"TORUS\" topo_parameters=\"3,2,2\"") != std::string::npos);
  CHECK(xml.find("radical=\"0-11\"") != std::string::npos);
  CHECK(xml.find("bw=\"5GBps\" lat=\"0.1us\"") != std::string::npos);
  // Of a link of 12 GB/s one rank fills 5, two 10 and three all; ends of messages are no wire.
  for (const auto& [ranks, filled] : {std::pair(1, 5), {2, 10}, {3, 12}}) {
    Machine node = machine_of(kSmallMachine + "link-gbs = 12 # assumed: T\n" +
                              "node-latency-us = 4 # assumed: T\n");
    node.derive(ranks);
    const std::string shared = platform_xml(node, 12);
    CAPTURE(shared);
    CHECK(shared.find(fmt::format(" bw=\"{}GBps\"", filled)) != std::string::npos);
    CHECK(shared.find("loopback_lat=\"2.1us\"") != std::string::npos);
  }
  std::string text = kSmallMachine;
  text.replace(text.find("torus"), 5, "dragonfly");
  CHECK_THROWS_AS(platform_xml(machine_of(text), 4), UsageError);
  text.replace(text.find("4x4"), 3, "3x2x4x2");
  const std::string dragonfly = platform_xml(machine_of(text), 33);
  CHECK(dragonfly.find("topo_parameters=\"3,36;1,1;8,3;2\"") != std::string::npos);
  CHECK(dragonfly.find("radical=\"0-47\"") != std::string::npos);
  text.replace(text.find("dragonfly"), 9, "fat-tree");
  text.replace(text.find("3x2x4x2"), 7, "4x2x2");
  const std::string tree = platform_xml(machine_of(text), 14);
  CHECK(tree.find("topo_parameters=\"3;4,2,2;1,2,2;1,1,1\"") != std::string::npos);
  CHECK(tree.find("radical=\"0-15\"") != std::string::npos);
  CHECK_THROWS_AS(platform_xml(machine_of(kJson, "mine.json"), 1), UsageError);
}

}  // namespace halomesh
