// SPDX-License-Identifier: Apache-2.0
// bench --calibrate under the launcher: on one, two and four ranks, with data, and wrong options.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

using Json = nlohmann::json;

Arguments tiny(const fs::path& json) {
  return {{"calibrate", ""},
          {"calibrate-seconds", "40"},
          {"calibrate-parts", "2"},
          {"input", "32x32x32x4"},
          {"conv-layers", "3"},
          {"filters", "4"},
          {"fc", "8"},
          {"targets", "4"},
          {"json", json.string()}};
}

double number(const Json& object, const char* name) { return object.at(name).get<double>(); }

}  // namespace

TEST_CASE("bench --calibrate writes a whole machine file on one, two and four ranks") {
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    const fs::path file = workshop().fresh("machine.json");
    Arguments arguments = tiny(file);
    if (ranks == 2) arguments["data"] = data_set(32, 8, 4).string();
    const Outcome outcome = run(ranks, "bench", arguments, 120);
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    const Json machine = Json::parse(read_file(file));
    for (const char* name : {"name", "cpu", "isa", "program_version", "cores", "threads"})
      CHECK(machine.contains(name));
    CHECK(number(machine.at("peak"), "fp32_flops_per_second") > 0);
    const auto isa = machine.at("isa").get<std::string>();
    const bool has_bf16 = isa.ends_with("bf16") || isa.ends_with("amx");
    CHECK((machine.at("peak").at("bf16_flops_per_second") > 0) == has_bf16);
    CHECK(machine.at("precision") == "fp32");
    CHECK(number(machine, "ranks") == ranks);
    const Json& network = machine.at("network");
    CHECK(network.at("between_nodes").is_null());
    CHECK(number(network, "copy_s_per_byte") > 0);
    CHECK(number(network, "poll_s") > 0);
    if (ranks == 1) {
      CHECK(network.at("within_node").is_null());
      CHECK(machine.at("sources").at("network") == "not measured");
      CHECK(outcome.text.find("not measured on one rank") != std::string::npos);
    } else {
      CHECK(number(network.at("within_node"), "latency_s") > 0);
      CHECK(network.at("ping_pong").size() > 5);
      CHECK(network.at("barrier").size() == (ranks == 2 ? 1 : 2));
    }
    CHECK(machine.at("input").is_null() == (ranks != 2));
    if (ranks == 2) CHECK(number(machine.at("input"), "decode_bytes_per_second") > 0);
    REQUIRE(!machine.at("kernels").empty());
    std::set<std::string> cases;
    for (const Json& kernel : machine.at("kernels")) {
      CHECK(number(kernel, "seconds") > 0);
      Json named = kernel;
      named.erase("seconds");
      CHECK(cases.insert(named.dump()).second);
    }
    CHECK(number(machine.at("kernels_left_out"), "memory") == 0);
  }
}

TEST_CASE("what does not fit the time is left out, and said") {
  const fs::path file = workshop().fresh("machine.json");
  Arguments arguments = tiny(file);
  arguments["calibrate-seconds"] = "1";
  arguments["calibrate-parts"] = "8";
  const Outcome outcome = run(1, "bench", arguments, 60);
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  const Json machine = Json::parse(read_file(file));
  CHECK(number(machine.at("kernels_left_out"), "time") > 0);
  CHECK(outcome.text.find("left out for lack of time") != std::string::npos);
}

TEST_CASE("a calibration that cannot be made or written is refused at once") {
  Arguments both = tiny(workshop().fresh("machine.json"));
  both["precision"] = "fp32,bf16";
  check_failure(run(1, "bench", both), 2, {"--precision fp32,bf16"});
  const Arguments nowhere = tiny("/nowhere/machine.json");
  check_failure(run(2, "bench", nowhere), 1, {"/nowhere"});
  Arguments no_data = tiny(workshop().fresh("machine.json"));
  no_data["data"] = "/nowhere/data";
  check_failure(run(1, "bench", no_data), 1, {"/nowhere/data"});
}

}  // namespace halomesh::test
