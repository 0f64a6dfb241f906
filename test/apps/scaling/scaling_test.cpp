// SPDX-License-Identifier: Apache-2.0
// A scaling study: its cases, and the file that it resumes from.
#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>

#include "src/apps/launch/analysis.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/scaling_options.hpp"
#include "src/apps/scaling/scaling_plan.hpp"
#include "src/apps/scaling/scaling_record.hpp"
#include "src/apps/scaling/scaling_table.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

Options parsed(std::vector<const char*> more) {
  std::vector<const char*> arguments{"scaling", "--input",   "16x16x16x4", "--conv-layers",
                                     "2",       "--fc",      "8",          "--targets",
                                     "4",       "--filters", "4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Options options = scaling_options();
  options.parse(static_cast<int>(arguments.size()), arguments.data());
  return options;
}

ScalingPlan planned(const std::vector<const char*>& arguments, std::int64_t ranks) {
  const Options options = parsed(arguments);
  return plan_scaling(options, make_model(options), ranks);
}

std::string refusal(const std::vector<const char*>& arguments, std::int64_t ranks) {
  try {
    planned(arguments, ranks);
  } catch (const UsageError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "nothing was thrown";
}

std::vector<std::string> names(const ScalingPlan& plan) {
  std::vector<std::string> all;
  for (const ScalingCase& one : plan.cases)
    all.push_back(one.name() + (one.strong ? " strong" : "") + (one.weak ? " weak" : ""));
  return all;
}

TEST_CASE("cases of listed meshes, each once for both kinds of scaling") {
  const ScalingPlan plan = planned({"--ranks", "4,1,2", "--parts", "1x1x1,2x1x1"}, 4);
  CHECK(plan.ranks == std::vector<std::int64_t>{1, 2, 4});
  const std::vector<std::string> expected{
      "1 rank, parts 1x1x1, batch 4 strong",       "1 rank, parts 1x1x1, batch 1 weak",
      "2 ranks, parts 1x1x1, batch 4 strong",      "2 ranks, parts 1x1x1, batch 2 weak",
      "2 ranks, parts 2x1x1, batch 4 strong",      "2 ranks, parts 2x1x1, batch 1 weak",
      "4 ranks, parts 1x1x1, batch 4 strong weak", "4 ranks, parts 2x1x1, batch 4 strong",
      "4 ranks, parts 2x1x1, batch 2 weak"};
  CHECK(names(plan) == expected);
  CHECK(plan.left_out.empty());
}

TEST_CASE("one kind of scaling alone, and its batch") {
  const ScalingPlan weak =
      planned({"--ranks", "1,2", "--parts", "1x1x1", "--weak", "--weak-batch", "3"}, 2);
  CHECK(names(weak) == std::vector<std::string>{"1 rank, parts 1x1x1, batch 3 weak",
                                                "2 ranks, parts 1x1x1, batch 6 weak"});
  const ScalingPlan strong =
      planned({"--ranks", "1,2", "--parts", "1x1x1,2x1x1", "--strong", "--strong-batch", "1"}, 2);
  CHECK(names(strong) == std::vector<std::string>{"1 rank, parts 1x1x1, batch 1 strong",
                                                  "2 ranks, parts 2x1x1, batch 1 strong"});
  REQUIRE(strong.left_out.size() == 1);
  CHECK(strong.left_out[0].find("2 ranks as 1x1x1") != std::string::npos);
  // By default all powers of two, and all ranks.
  CHECK(planned({}, 6).ranks == std::vector<std::int64_t>{1, 2, 4, 6});
}

TEST_CASE("auto takes the cheapest cut into each number of parts, and says what it leaves out") {
  const ScalingPlan plan = planned({"--ranks", "1,4", "--weak"}, 4);
  REQUIRE(plan.cases.size() == 4);  // 1x1x1 twice, one cut in two, one in four
  const Model model = make_model(parsed({}));
  for (const ScalingCase& one : plan.cases) {
    const PartGrid& grid = one.mesh.parts;
    for (const PartGrid& other : {PartGrid{4, 1, 1}, PartGrid{2, 2, 1}, PartGrid{1, 1, 4}})
      if (grid.count() == 4) CHECK(cost_of_grid(model, grid) <= cost_of_grid(model, other));
  }
  REQUIRE(!plan.left_out.empty());
  CHECK(plan.left_out[0].find("other cuts") != std::string::npos);
  CHECK(planned({"--ranks", "4", "--max-parts", "1"}, 4).cases.size() == 1);
}

TEST_CASE("impossible studies are refused with the value and a cure") {
  CHECK(refusal({"--ranks", "1,8"}, 4) ==
        "--ranks 1,8 needs 8 ranks, but 4 were started | start 8 ranks, or leave 8 out of --ranks");
  CHECK(
      refusal({"--ranks", "2,3", "--parts", "2x1x1"}, 4).find("no mesh of --parts 2x1x1 fits 3") ==
      0);
  CHECK(refusal({"--ranks", "4", "--parts", "1x1x1", "--strong-batch", "6"}, 4)
            .find("give --strong-batch 12 or a multiple") != std::string::npos);
  CHECK(refusal({"--parts", "2x1x1,2x1x1"}, 2).find("twice") != std::string::npos);
  CHECK(refusal({"--parts", "2x"}, 2).find("'2x'") != std::string::npos);
  CHECK(refusal({"--ranks", "999983,999979"}, 1000000).find("--strong-batch") != std::string::npos);
}

const StudySettings kSettings{{"precision", "fp32"}, {"reduction", "flat"}, {"steps", "3"}};

BenchResult result_of(std::vector<double> seconds) {
  BenchResult result;
  result.seconds = std::move(seconds);
  result.mean_step_s = result.seconds.front();
  result.halo_wait.mean = 0.25;
  return result;
}

/// 1 rank: 4 samples in 4 s. 2 ranks: two meshes, 2.5 s and 3 s.
const std::vector<ScalingCase> kCases{{{1, {1, 1, 1}}, 4, true, true},
                                      {{2, {1, 1, 1}}, 4, true, false},
                                      {{1, {2, 1, 1}}, 4, true, false}};

ScalingRecord measured_record() {
  ScalingRecord record({{"program", "halomesh"}}, kSettings);
  for (const std::int64_t round : {0, 1}) {
    record.add(kCases[0], round, result_of({4.0, round == 0 ? 3.0 : 5.0, 4.0}));
    record.add(kCases[1], round, result_of({2.5}));
    record.add(kCases[2], round, result_of({3.0}));
  }
  return record;
}

TEST_CASE("runs join the rounds of a case; efficiency is against the fewest ranks") {
  const ScalingRecord record = measured_record();
  CHECK(record.measurements() == 6);
  CHECK(record.has(kCases[2], 1));
  CHECK(!record.has(kCases[2], 2));
  CHECK(!record.has({{1, {1, 1, 1}}, 8, true, false}, 0));
  const auto json = record.json(kCases, {{kCases[1].name(), {2.4, 2.2, 2.6}}});
  REQUIRE(json["runs"].size() == 4);  // three strong, one weak
  const auto& whole = json["runs"][0];
  CHECK(whole["scaling"] == "strong");
  CHECK(whole["rounds"] == 2);
  CHECK(whole["steps"] == 6);
  CHECK(whole["step_seconds"]["median"] == 4.0);
  CHECK(whole["step_seconds"]["min"] == 3.0);
  CHECK(whole["step_seconds"]["max"] == 5.0);
  CHECK(whole["samples_per_second"]["median"] == 1.0);
  CHECK(whole["samples_per_second"]["max"].get<double>() == doctest::Approx(4.0 / 3));
  CHECK(whole["efficiency"] == 1.0);
  CHECK(whole["wait_fraction"]["halo"]["mean"] == 0.25);
  CHECK(!whole.contains("predicted_step_seconds"));
  CHECK(json["runs"][1]["efficiency"].get<double>() == doctest::Approx(0.8));
  CHECK(json["runs"][1]["predicted_step_seconds"] == 2.4);
  CHECK(json["runs"][2]["efficiency"].get<double>() == doctest::Approx(4.0 / 3 / 2));
  CHECK(json["runs"][3]["scaling"] == "weak");
  std::ostringstream text;
  print_summaries(text, record.summaries(kCases, true, {{kCases[1].name(), {2.4, 2.2, 2.6}}}),
                  true);
  CHECK(text.str().find("pred./meas.") != std::string::npos);
  CHECK(text.str().find("0.96") != std::string::npos);
}

TEST_CASE("a stopped study goes on from its file, and only from its own") {
  const std::string text = measured_record().json(kCases, {}).dump();
  ScalingRecord again({{"program", "halomesh"}}, kSettings);
  again.resume(text, "s.json");
  CHECK(again.json(kCases, {}).dump() == text);
  again.add(kCases[0], 2, result_of({4.0}));
  CHECK(again.measurements() == 7);
  const auto refused = [&](const std::string& file, const StudySettings& settings) {
    ScalingRecord other({}, settings);
    try {
      other.resume(file, "s.json");
    } catch (const Error& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return std::string("nothing was thrown");
  };
  StudySettings more_steps = kSettings;
  more_steps["steps"] = "5";
  CHECK(refused(text, more_steps).find("s.json: measured with steps = 3, not 5 | ") == 0);
  for (const std::string& damaged :
       {std::string(), text.substr(0, text.size() / 2), std::string("[]"), std::string("{}"),
        std::string(R"({"study": {"precision": "fp32", "reduction": "flat", "steps": "3"}, )"
                    R"("measurements": [{"parts": 3}]})"),
        std::string(R"({"study": 7, "measurements": []})")}) {
    CAPTURE(damaged);
    const std::string message = refused(damaged, kSettings);
    CHECK(message.find("s.json: ") == 0);
    CHECK(message.find("--restart") != std::string::npos);
  }
}

TEST_CASE("a study is drawn as figures") {
  const TempDirectory directory;
  const std::filesystem::path file = directory.path() / "study.json";
  put_contents(file, measured_record().json(kCases, {}).dump());
  CHECK(analysis_succeeds({"figures", file.string(), directory.path().string()}));
  CHECK(std::filesystem::file_size(directory.path() / "bench-strong.svg") > 1000);
  CHECK(std::filesystem::file_size(directory.path() / "bench-strong.csv") > 50);
}

}  // namespace
}  // namespace halomesh
