// The command bench under the launcher: two meshes on two ranks, and the figures that it leaves.
#include <doctest/doctest.h>

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

void check_run(const Json& run) {
  CAPTURE(run["parts"].get<std::string>());
  for (const char* spread :
       {"step_seconds", "samples_per_second", "evaluated_samples_per_second"}) {
    CAPTURE(spread);
    check_positive(run.at(spread), {"min", "median", "max"});
    CHECK(run[spread]["min"] <= run[spread]["median"]);
    CHECK(run[spread]["median"] <= run[spread]["max"]);
  }
  check_positive(run, {"evaluation_to_training", "flops", "flops_per_second", "peak_fraction"});
  check_positive(run.at("peak_memory"), {"max_bytes_of_a_process", "sum_bytes"});
  CHECK(run["peak_memory"]["sum_bytes"] >= run["peak_memory"]["max_bytes_of_a_process"]);
  CHECK(!run.at("kernels").empty());
  double seconds = 0;
  std::set<std::string> kinds;
  for (const Json& phase : run.at("phases")) {
    seconds += phase.at("seconds_mean_over_ranks").get<double>();
    kinds.insert(phase.at("kind").get<std::string>());
    for (const char* name : {"flops", "memory_bytes", "received_bytes", "roof_fraction"})
      CHECK(phase.at(name).get<double>() >= 0);
  }
  // Both are written with all their digits; sums of some fifty numbers.
  CHECK(seconds == doctest::Approx(run.at("mean_step_seconds").get<double>()).epsilon(1e-12));
  CHECK(kinds == std::set<std::string>{"compute", "halo wait", "input wait", "optimizer", "other",
                                       "reduction wait"});
}

double received(const Json& run, const std::string& phase) {
  double bytes = 0;
  for (const Json& row : run.at("phases"))
    if (row["phase"] == phase) bytes += row["received_bytes"].get<double>();
  return bytes;
}

}  // namespace

TEST_CASE("bench measures two meshes on two ranks and leaves every figure") {
  const fs::path file = workshop().fresh("bench.json");
  const Outcome outcome = run(2, "bench", small_bench(file), 60);
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  for (const char* named : {"parts 3x1x1 left out", "parts 2x1x1, replicas 1, 2 ranks", "FMA peak",
                            "triad", "x training"}) {
    CAPTURE(named);
    CHECK(outcome.text.find(named) != std::string::npos);
  }
  const Json record = Json::parse(read_file(file));
  for (const char* name : {"version", "git_commit", "machine", "binding", "options", "threads"})
    CHECK(record.contains(name));
  CHECK(record.at("binding").size() == 2);
  check_positive(record.at("peak"), {"fp32_flops_per_second", "triad_bytes_per_second"});
  REQUIRE(record.at("runs").size() == 2);
  for (const Json& each : record["runs"]) check_run(each);
  const Json &replicas = record["runs"][0], &parts = record["runs"][1];
  CHECK(replicas["replicas"] == 2);
  CHECK(parts["parts"] == "2x1x1");
  // Same batch, same work, but only a cut sample has halos.
  CHECK(replicas["flops"] == parts["flops"]);
  CHECK(received(replicas, "halo") == 0);
  CHECK(received(parts, "halo") > 0);
  CHECK(received(replicas, "reduction") > 0);
}

TEST_CASE("bench refuses what cannot be measured before it starts") {
  const fs::path file = workshop().fresh("bench.json");
  Arguments arguments = small_bench(file);
  arguments["batch"] = "3";
  check_failure(run(2, "bench", arguments), 2, {"3", "2 replicas"});
  const fs::path nowhere = workshop().fresh("nowhere") / "b.json";
  arguments = small_bench(nowhere);
  check_failure(run(2, "bench", arguments), 1, {nowhere.string()});
  CHECK(!fs::exists(file));
}

}  // namespace halomesh::test
