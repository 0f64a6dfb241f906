// SPDX-License-Identifier: Apache-2.0
// The MLPerf logs that real runs leave, judged by the rules of the v1.0 checker.
#include <doctest/doctest.h>

#include "test/harness/mlperf_rules.hpp"
#include "test/system/script_job.hpp"

namespace halomesh::test {
namespace {

/// A run that can reach the benchmark's target within seconds: it is validated on its training
/// samples.
Scene quick_scene() {
  Scene scene(true);
  fs::remove_all(scene.data / "validation");
  fs::copy(scene.data / "train", scene.data / "validation", fs::copy_options::recursive);
  scene.options["dropout"] = "0";
  scene.options["epochs"] = "0";
  scene.options["steps"] = "1000";
  scene.options["lr"] = "0.02";
  scene.options["target-mae"] = "0.124";
  scene.options["submission-org"] = "test";
  return scene;
}

std::size_t count(const std::vector<std::string>& keys, const std::string& key) {
  return static_cast<std::size_t>(std::count(keys.begin(), keys.end(), key));
}

void check_rules(const std::string& text) {
  MlperfRules rules(0.124);
  for (const std::string& problem : rules.problems(text)) FAIL_CHECK(problem);
  CHECK(rules.rules_checked() > 200);
}

}  // namespace

TEST_CASE(
    "the MLPerf log of a run that reaches the target complies with the closed rules of v1.0") {
  const Scene scene = quick_scene();
  const Outcome outcome = scene.train(60);
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  const std::string text = read_file(scene.out / "mllog.txt");
  check_rules(text);
  const MlperfLines lines = parse_mlperf(text);
  CHECK(lines.back()["key"] == "run_stop");
  CHECK(lines.back()["metadata"]["status"] == "success");
  // When repeated, the command finds nothing to do, and the log stays unchanged.
  const Outcome again = scene.train(60);
  CAPTURE(again.text);
  CHECK(again.exit_code == 0);
  CHECK(read_file(scene.out / "mllog.txt") == text);
}

TEST_CASE("staging is in the MLPerf log, inside the run") {
  Scene scene = quick_scene();
  scene.options["steps"] = "2";
  scene.options["stage-dir"] = workshop().fresh("stage").string();
  const Outcome outcome = scene.train(60);
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  const auto keys = mlperf_keys(parse_mlperf(read_file(scene.out / "mllog.txt")));
  const auto at = [&](const char* key) {
    CHECK(count(keys, key) == 1);
    return std::find(keys.begin(), keys.end(), key) - keys.begin();
  };
  CHECK(at("run_start") < at("staging_start"));
  CHECK(at("staging_stop") == at("staging_start") + 1);
  CHECK(at("staging_stop") < at("epoch_start"));
}

TEST_CASE("a run of several jobs leaves one MLPerf log") {
  Scene scene = quick_scene();
  for (const char* steps : {"3", "4", "9", "1000"}) {
    CAPTURE(steps);
    scene.options["steps"] = steps;
    const Outcome outcome = scene.train(60);
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    const auto keys = mlperf_keys(parse_mlperf(read_file(scene.out / "mllog.txt")));
    CHECK(count(keys, "run_start") == 1);
    CHECK(count(keys, "run_stop") == 1);
  }
  const std::string text = read_file(scene.out / "mllog.txt");
  check_rules(text);
  const MlperfLines lines = parse_mlperf(text);
  CHECK(count(mlperf_keys(lines), "resumed") == 3);
  std::int64_t epoch = 0;
  for (const auto& line : lines) {
    if (line["key"] != "epoch_start") continue;
    CHECK(line["metadata"]["epoch_num"] == ++epoch);
  }
  CHECK(epoch > 5);
}

TEST_CASE("a v0.7 log of a run that misses its target has the values of the options") {
  Scene scene;
  scene.options["mllog"] = "v0.7";
  scene.options["submission-platform"] = "two words";
  scene.options["target-mae"] = "0.001";
  const Outcome outcome = scene.train();
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  const std::string text = read_file(scene.out / "mllog.txt");
  const MlperfLines lines = parse_mlperf(text);
  CHECK(text.find("\"key\": \"submission_platform\", \"value\": \"two words\"") !=
        std::string::npos);
  CHECK(text.find("number_of_ranks") == std::string::npos);
  CHECK(lines.back()["metadata"]["status"] == "aborted");
  CHECK(lines.at(lines.size() - 2)["metadata"]["epoch_num"] == 1);
}

}  // namespace halomesh::test
