// SPDX-License-Identifier: Apache-2.0
// Reading the files of a run while it writes them.
#include "src/apps/records/run_files.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "error.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

const std::string kStep = R"({"event":"step","time":100.5,"step":1,"epoch":0,"loss":0.5,"lr":0.01,)"
                          R"("seconds":0.25})"
                          "\n";
const std::string kOldStep = R"({"event":"step","step":2,"epoch":0,"loss":null,"lr":0.02,)"
                             R"("seconds":0.5})"
                             "\n";
const std::string kEvaluation = R"({"event":"eval","time":103,"epoch":0,"mae":0.4,"loss":0.3,)"
                                R"("samples":8,"seconds":1.5})"
                                "\n";
const std::string kPhasesLine = R"({"event":"phases","time":102,"epoch":0,"steps":2})"
                                "\n";
const std::string kStage = R"({"event":"stage","time":99,"seconds":2,"samples":16})"
                           "\n";

void append(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

}  // namespace

TEST_CASE("run files are read whole, in their order") {
  const TempDirectory directory;
  append(directory.path() / "run.json", R"({"version":"1","mesh":{"ranks":4}})");
  append(directory.path() / "metrics.jsonl", kStage + kStep + kOldStep + kPhasesLine + kEvaluation);
  const RunFiles files(directory.path());
  CHECK(files.name() == directory.path().filename().string());
  CHECK(files.run()["mesh"]["ranks"] == 4);
  REQUIRE(files.steps().size() == 2);
  CHECK(files.steps()[0].time == 100.5);
  CHECK(files.steps()[0].record.loss == 0.5);
  CHECK(files.steps()[0].record.lr == 0.01);
  CHECK(files.steps()[0].record.seconds == 0.25);
  CHECK(files.steps()[1].record.step == 2);
  CHECK(files.steps()[1].time == 0);
  CHECK(std::isnan(files.steps()[1].record.loss));
  REQUIRE(files.evaluations().size() == 1);
  CHECK(files.evaluations()[0].record.score == 0.4);
  CHECK(files.evaluations()[0].record.samples == 8);
  REQUIRE(files.phases().size() == 1);
  CHECK(files.phases()[0]["steps"] == 2);
  CHECK(files.stage()["samples"] == 16);
  CHECK(files.last_written() == 103);
  CHECK(files.problems().empty());
}

TEST_CASE("run files are followed while a run appends, and from the start when it resumes") {
  const TempDirectory directory;
  const auto metrics = directory.path() / "metrics.jsonl";
  append(directory.path() / "run.json", "{}");
  append(metrics, kStep + kOldStep.substr(0, 20));
  RunFiles files(directory.path());
  CHECK(files.steps().size() == 1);
  REQUIRE(files.problems().size() == 1);
  CHECK(files.problems()[0] == metrics.string() + ": line 2 is incomplete");
  CHECK(!files.update());
  append(metrics, kOldStep.substr(20) + kEvaluation);
  CHECK(files.update());
  CHECK(files.steps().size() == 2);
  CHECK(files.evaluations().size() == 1);
  CHECK(files.problems().empty());

  append(directory.path() / "new", kStep);
  std::filesystem::rename(directory.path() / "new", metrics);
  CHECK(files.update());
  CHECK(files.steps().size() == 1);
  CHECK(files.evaluations().empty());
  std::filesystem::remove(directory.path() / "run.json");
  append(directory.path() / "run.json", R"({"end":{}})");
  CHECK(files.update());
  CHECK(files.run().contains("end"));
}

TEST_CASE("damaged run files are named, the rest is read") {
  const TempDirectory directory;
  append(directory.path() / "run.json", "[1,");
  append(directory.path() / "metrics.jsonl", kStep + "{\"event\":3}\n\xff\n" + kEvaluation);
  const RunFiles files(directory.path());
  CHECK(files.run().is_null());
  CHECK(files.steps().size() == 1);
  CHECK(files.evaluations().size() == 1);
  REQUIRE(files.problems().size() == 2);
  CHECK(files.problems()[0] == (directory.path() / "run.json").string() + ": not a JSON object");
  CHECK(files.problems()[1] ==
        (directory.path() / "metrics.jsonl").string() + ": damaged lines: 2 (the first is line 2)");
  CHECK_THROWS_AS(RunFiles(directory.path() / "none"), Error);
  const TempDirectory empty;
  CHECK_THROWS_AS(RunFiles(empty.path()), Error);
}

TEST_CASE("a run without metrics can be read") {
  const TempDirectory directory;
  append(directory.path() / "run.json", "{}");
  const RunFiles files(directory.path());
  CHECK(files.steps().empty());
  REQUIRE(files.problems().size() == 1);
  CHECK(files.problems()[0] == (directory.path() / "metrics.jsonl").string() + ": missing");
}

}  // namespace halomesh
