// SPDX-License-Identifier: Apache-2.0
// `plan --machine` from its arguments to what it prints and writes.
#include "src/apps/plan/machine_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "src/apps/options/model_options.hpp"
#include "src/apps/options/train_options.hpp"
#include "src/apps/plan/memory_forecast.hpp"
#include "test/apps/forecast/machine_scene.hpp"

namespace halomesh {
namespace {

std::string printed_for(const std::vector<std::string>& network,
                        std::vector<std::string> arguments) {
  Options options("plan", "");
  add_model_options(options);
  add_machine_options(options);
  add_memory_options(options);
  arguments.insert(arguments.end(), network.begin(), network.end());
  options.parse(arguments);
  if (!wants_machine(options)) return "no forecast";
  std::ostringstream out;
  plan_on_machine(out, options, make_model(options), source_jobscripts());
  return out.str();
}

std::string printed(const std::vector<std::string>& arguments) {
  return printed_for({"--input", "32x32x32x4", "--conv-layers", "3"}, arguments);
}

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    printed(arguments);
  } catch (const UsageError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("a plan names the best mesh, the runner-up, reasons and assumptions") {
  const TempDirectory directory;
  const std::string file = (directory / "plan.json").string();
  const std::string text =
      printed({"--machine", "fugaku", "--nodes", "8", "--batch", "16", "--json", file});
  for (const char* part :
       {"Fugaku (RIKEN), A64FX, TofuD: 8 nodes, 4 ranks per node, 12 threads per rank; batch 16",
        "Left out: 1 part per sample: 32 replicas do not divide batch 16; use --batch 32.",
        "Best: --parts ", "Runner-up: --parts ", "Its step computes for ", "kernel-efficiency",
        "100 % roofline at 0.3 of the peak"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
  const auto json = nlohmann::json::parse(std::ifstream(file));
  // 2, 4, 8, 16 and 32 parts in three dimensions.
  CHECK(json.at("meshes").size() == 3 + 6 + 10 + 15 + 21);
  const auto& best = json["meshes"][0];
  CHECK(text.find("Best: --parts " + best["parts"].get<std::string>()) != std::string::npos);
  const auto& step = best["step"];
  double sum = 0;
  for (const char* term :
       {"compute_s", "halo_s", "gather_s", "reduction_s", "straggler_s", "input_s"})
    sum += step[term].get<double>();
  CHECK(step["step_s"].get<double>() == doctest::Approx(sum));
  CHECK(json["numbers"]["link-gbs"]["origin"] == "published");
  CHECK(json["sensitivities"].size() > 3);
}

TEST_CASE("a plan ends with the memory of a node, and says what it assumes") {
  const TempDirectory directory;
  const std::string file = (directory / "plan.json").string();
  std::ofstream(directory / "mine.ini") << kSmallMachine;
  const auto plan = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--machine", (directory / "mine.ini").string(), "--json", file});
    return printed_for({"--model", "unet3d", "--input", "16x16x16x1", "--levels", "2"}, more);
  };
  const std::string text = plan({"--nodes", "4", "--batch", "4", "--precision", "bf16"});
  const auto last = text.find("\nLeast nodes per sample: 1, --parts 1x1x1: ");
  REQUIRE(last != std::string::npos);
  for (const char* part : {" GiB per node of 8\n", "\nMemory of ",
                           "; the largest share: ", "\nStep of ", " in bf16: "}) {
    CAPTURE(part);
    CHECK(text.find(part, last) != std::string::npos);
  }
  // Nobody gave the samples of an epoch: neither epochs nor solutions have a time.
  CHECK(text.find("; samples of an epoch not known\n  not given, so assumed: --gradient-payload "
                  "fp32, --max-parts 64, --optimizer sgd, --recompute off\n") != std::string::npos);
  CHECK(text.find("solution):") == std::string::npos);
  CHECK(text.find("to the solution.") == std::string::npos);
  CHECK(text.find("Note: memory is counted with the library's kernels for this computer") !=
        std::string::npos);
  auto json = nlohmann::json::parse(std::ifstream(file));
  CHECK(json["assumed_options"].size() == 4);
  CHECK(json["assumed_options"]["max-parts"] == "64");
  CHECK(json["precision"] == "bf16");
  CHECK(json["input"] == "16x16x16x1");
  CHECK(json["training_samples"].is_null());
  CHECK(json["meshes"][0]["time_to_solution_s"].is_null());
  CHECK(json["least_nodes_per_sample"]["nodes"] == 1);
  CHECK(json["least_nodes_per_sample"]["memory_bytes_per_node"] > 0);
  CHECK(json["notes"].size() >= 2);
  // No published number of validation samples belongs to samples of the user's own.
  CHECK(plan({"--training-samples", "168"})
            .find("; 168 training and 0 validation samples; 1 epoch") != std::string::npos);
  json = nlohmann::json::parse(std::ifstream(file));
  CHECK(json["meshes"][0]["evaluation_s"] == 0);
  CHECK(printed({"--machine", "fugaku"})
            .find("; 262144 training and 65536 validation samples (as published); ") !=
        std::string::npos);
}

TEST_CASE("a plan counts what the optimizer keeps and moves") {
  const TempDirectory directory;
  const auto forecast = [&](const std::string& optimizer) {
    const std::string file = (directory / optimizer).string();
    printed({"--machine", "fugaku", "--nodes", "8", "--batch", "16", "--json", file, "--optimizer",
             optimizer});
    return nlohmann::json::parse(std::ifstream(file));
  };
  const auto sgd = forecast("sgd"), lamb = forecast("lamb");
  std::size_t compared = 0;
  for (const auto& mesh : sgd.at("meshes"))
    for (const auto& same : lamb.at("meshes")) {
      if (mesh["parts"] != same["parts"]) continue;
      ++compared;
      CHECK(same["step"]["memory_bytes"] > mesh["step"]["memory_bytes"]);
      CHECK(same["step"]["compute_s"] > mesh["step"]["compute_s"]);
    }
  CHECK(compared == sgd.at("meshes").size());
  CHECK(compared > 0);
}

TEST_CASE("gradients as bf16 take half the bytes in a plan, and memory for what they lose") {
  const TempDirectory directory;
  const auto forecast = [&](const std::string& payload) {
    const std::string file = (directory / payload).string();
    printed({"--machine", "fugaku", "--nodes", "8", "--batch", "16", "--json", file,
             "--gradient-payload", payload});
    return nlohmann::json::parse(std::ifstream(file)).at("meshes");
  };
  const auto fp32 = forecast("fp32"), bf16 = forecast("bf16");
  std::size_t compared = 0;
  for (const auto& mesh : fp32)
    for (const auto& same : bf16) {
      if (mesh["parts"] != same["parts"]) continue;
      ++compared;
      CHECK(same["step"]["memory_bytes"] > mesh["step"]["memory_bytes"]);
      CHECK(same["step"]["reduction_s"] < mesh["step"]["reduction_s"]);
    }
  CHECK(compared == fp32.size());
  CHECK(compared > 0);
}

TEST_CASE("plan --recompute auto: what the memory of the machine needs") {
  const TempDirectory directory;
  const auto forecast = [&](const std::string& recompute, double gib) {
    std::string machine = kSmallMachine;
    machine.replace(machine.find("memory-gib = 8"), 14, fmt::format("memory-gib = {}", gib));
    std::ofstream(directory / "mine.ini") << machine;
    const std::string file = (directory / recompute).string();
    const std::string text = printed_for(
        {"--model", "unet3d", "--input", "32x32x32x1", "--levels", "3", "--filters", "16"},
        {"--machine", (directory / "mine.ini").string(), "--nodes", "1", "--ranks-per-node", "4",
         "--batch", "4", "--json", file, "--recompute", recompute});
    CHECK((text.find("Outputs are computed again (--recompute auto) on ") != std::string::npos) ==
          (recompute == "auto"));
    std::map<std::string, nlohmann::json> meshes;
    const auto json = nlohmann::json::parse(std::ifstream(file));
    for (const auto& mesh : json.at("meshes")) meshes[mesh.at("parts").get<std::string>()] = mesh;
    return meshes;
  };
  const auto off = forecast("off", 8), on = forecast("on", 8);
  const auto bytes = [](const nlohmann::json& mesh) {
    return mesh.at("step").at("memory_bytes").get<double>();
  };
  const auto [least, most] = std::minmax_element(
      off.begin(), off.end(),
      [&](const auto& a, const auto& b) { return bytes(a.second) < bytes(b.second); });
  const double enough_for = (bytes(least->second) + bytes(most->second)) / 2;
  const auto chosen = forecast("auto", 4 * 1.05 * enough_for * 0x1p-30);
  REQUIRE(chosen.size() == off.size());
  std::size_t recomputed = 0;
  for (const auto& entry : chosen) {
    const std::string& parts = entry.first;
    CAPTURE(parts);
    const bool is_short = bytes(off.at(parts)) > enough_for;
    recomputed += is_short ? 1 : 0;
    CHECK(bytes(on.at(parts)) < bytes(off.at(parts)));
    CHECK(entry.second.at("recomputes") == is_short);
    CHECK(bytes(entry.second) == bytes((is_short ? on : off).at(parts)));
    CHECK(off.at(parts).at("recomputes") == false);
  }
  CHECK(recomputed > 0);
  CHECK(recomputed < chosen.size());
}

TEST_CASE("numbers of a machine, names of machines, platforms") {
  const std::string numbers = printed({"--machine", "cori-knl", "--numbers"});
  CHECK(numbers.find("derived") != std::string::npos);
  CHECK(numbers.find("Aries") != std::string::npos);
  CHECK(printed({"--machine", "list"}).find("fugaku\n") != std::string::npos);
  const TempDirectory directory;
  const std::string file = (directory / "p.xml").string();
  printed({"--machine", "fugaku", "--nodes", "64", "--platform", file});
  std::stringstream xml;
  xml << std::ifstream(file).rdbuf();
  CHECK(xml.str().find("topo_parameters=\"4,4,4\"") != std::string::npos);
}

TEST_CASE("plans that make no sense are refused") {
  CHECK(refusal({"--machine", "fugaku", "--nodes", "200000"}) ==
        "fugaku has 158976 nodes, not 200000 | give --nodes 158976 or less, or a machine file with "
        "more nodes");
  CHECK(refusal({"--machine", "fugako"}) ==
        "unknown machine 'fugako' | did you mean fugaku? --machine list lists all; a path names a "
        "file of your own");
  CHECK(refusal({"--nodes", "4"}) ==
        "--nodes has no meaning without --machine | give --machine as well, or leave --nodes out");
  const TempDirectory directory;
  std::string text = kSmallMachine;
  text.replace(text.find("memory-gib = 8"), 14, "memory-gib = 0.25");
  std::ofstream(directory / "mine.ini") << text;
  const std::string refused = refusal(
      {"--machine", (directory / "mine.ini").string(), "--ranks-per-node", "4", "--batch", "4"});
  CHECK(refused.starts_with("no mesh fits the memory: "));
  CHECK(refused.find("but a node of mine has 0.25 GiB") != std::string::npos);
}

}  // namespace halomesh
