// SPDX-License-Identifier: Apache-2.0
// The command scaling under the launcher: a study, its continuation after a kill, its figures,
// predictions, and what it refuses.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

using Json = nlohmann::json;

Arguments small_study(const fs::path& json) {
  return {{"input", "16x16x16x4"}, {"conv-layers", "2"}, {"filters", "4"}, {"fc", "8"},
          {"targets", "4"},        {"steps", "2"},       {"warm-up", "1"}, {"json", json.string()}};
}

Json measurements_of(const fs::path& file) {
  return Json::parse(read_file(file)).at("measurements");
}

}  // namespace

TEST_CASE("scaling measures all numbers of ranks in one job") {
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    const fs::path file = workshop().fresh("scaling.json"), figures = workshop().fresh("figures");
    Arguments arguments = small_study(file);
    arguments["figures"] = figures.string();
    arguments["parts"] = "1x1x1,2x1x1";
    if (ranks == 1) arguments["parts"] = "1x1x1";
    arguments["machine"] = "fugaku";
    const Outcome outcome = run(ranks, "scaling", arguments, 120);
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.text.find("strong scaling") != std::string::npos);
    CHECK(outcome.text.find("weak scaling") != std::string::npos);
    CHECK(outcome.text.find("predicted for fugaku: kernel times 0 % measured, 0 % interpolated, "
                            "100 % roofline at 0.3 of the peak in fp32\n") != std::string::npos);
    CHECK(outcome.text.find("cosmoflow of 16x16x16x4 in fp32, 1 thread per rank\n") !=
          std::string::npos);
    CHECK(outcome.text.find("note: fugaku describes ") != std::string::npos);
    const Json record = Json::parse(read_file(file));
    std::set<std::string> strong;
    for (const Json& one : record.at("runs")) {
      CHECK(one.at("step_seconds").at("median").get<double>() > 0);
      CHECK(one.at("steps") == 6);  // three rounds of two
      CHECK(one.at("efficiency").get<double>() > 0);
      if (one.at("scaling") == "strong") {
        CHECK(one.at("batch") == ranks);
        strong.insert(
            fmt::format("{}/{}", one.at("ranks").get<int>(), one.at("parts").get<std::string>()));
      }
    }
    const std::set<std::string> expected =
        ranks == 1   ? std::set<std::string>{"1/1x1x1"}
        : ranks == 2 ? std::set<std::string>{"1/1x1x1", "2/1x1x1", "2/2x1x1"}
                     : std::set<std::string>{"1/1x1x1", "2/1x1x1", "2/2x1x1", "4/1x1x1", "4/2x1x1"};
    CHECK(strong == expected);
    CHECK(fs::exists(figures / "bench-throughput.svg"));
    CHECK(fs::exists(figures / "bench-strong.svg") == (ranks > 1));
  }
}

TEST_CASE("a study that stops at its limit goes on when started again, and grows") {
  const fs::path file = workshop().fresh("scaling.json");
  Arguments arguments = small_study(file);
  arguments["parts"] = "1x1x1";
  arguments["wall-limit"] = "0.001";
  const Outcome stopped = run(2, "scaling", arguments);
  CAPTURE(stopped.text);
  CHECK(stopped.exit_code == 75);
  CHECK(stopped.text.find("run again to go on") != std::string::npos);
  arguments.erase("wall-limit");
  arguments["repeats"] = "1";
  REQUIRE(run(2, "scaling", arguments).exit_code == 0);
  const Json first = measurements_of(file);
  REQUIRE(first.size() == 3);  // 1 rank: batch 2 and 1; 2 ranks: batch 2
  arguments["repeats"] = "2";
  const Outcome more = run(2, "scaling", arguments);
  CHECK(more.exit_code == 0);
  CHECK(more.text.find("resuming: 3 measurements") != std::string::npos);
  const Json all = measurements_of(file);
  REQUIRE(all.size() == 6);
  for (std::size_t i = 0; i < first.size(); ++i) CHECK(all[i] == first[i]);
  // Nothing is left to do; --restart measures anew.
  CHECK(run(2, "scaling", arguments).exit_code == 0);
  CHECK(measurements_of(file) == all);
  arguments["restart"] = "";
  CHECK(run(2, "scaling", arguments).exit_code == 0);
  CHECK(measurements_of(file) != all);
}

TEST_CASE("a study that was killed leaves a whole file and continues") {
  const fs::path file = workshop().fresh("scaling.json");
  Arguments arguments = small_study(file);
  arguments["repeats"] = "200";
  {
    Job job(2, "scaling", arguments, workshop().fresh("log"));
    CHECK(wait_until(60, [&] { return fs::exists(file); }));
  }  // kills the job
  REQUIRE(fs::exists(file));
  const std::size_t before = measurements_of(file).size();
  CHECK(before > 0);
  arguments["repeats"] = "1";
  const Outcome outcome = run(2, "scaling", arguments, 120);
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.text.find("resuming: ") != std::string::npos);
  CHECK(measurements_of(file).size() >= before);
}

TEST_CASE("predictions stand beside measurements") {
  const fs::path machine = workshop().fresh("machine").string() + ".json",
                 file = workshop().fresh("scaling.json");
  Arguments calibration = small_study(machine);
  calibration.erase("steps");
  calibration.erase("warm-up");
  calibration.insert({{"calibrate", ""}, {"calibrate-seconds", "10"}, {"calibrate-parts", "2"}});
  REQUIRE(run(2, "bench", calibration, 120).exit_code == 0);
  Arguments arguments = small_study(file);
  arguments["machine"] = machine.string();
  const Outcome outcome = run(2, "scaling", arguments, 120);
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.text.find("predicted ms") != std::string::npos);
  const Json runs = Json::parse(read_file(file)).at("runs");
  REQUIRE(runs.size() >= 4);
  for (const Json& one : runs) CHECK(one.at("predicted_step_seconds").get<double>() > 0);
}

TEST_CASE("studies that cannot be made are refused with one message") {
  const fs::path file = workshop().fresh("scaling.json");
  const auto with = [&](const std::string& name, const std::string& value) {
    Arguments arguments = small_study(file);
    arguments[name] = value;
    return arguments;
  };
  check_failure(run(2, "scaling", with("ranks", "1,4")), 2, {"--ranks 1,4", "4"});
  check_failure(run(2, "scaling", with("parts", "3x1x1")), 2, {"--parts 3x1x1", "1 rank"});
  check_failure(run(2, "scaling", with("json", "/nowhere/s.json")), 1, {"/nowhere"});
  check_failure(run(1, "scaling", with("machine", "no-such-machine")), 2, {"no-such-machine"});
  std::ofstream(file) << "{\"study\": ";
  check_failure(run(2, "scaling", with("parts", "1x1x1")), 1, {file.string(), "--restart"});
  fs::remove(file);
  Arguments once = with("parts", "1x1x1");
  once["repeats"] = "1";
  REQUIRE(run(2, "scaling", once).exit_code == 0);
  once["steps"] = "4";
  check_failure(run(2, "scaling", once), 1, {file.string(), "steps = 2, not 4"});
}

}  // namespace halomesh::test
