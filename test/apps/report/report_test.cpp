// SPDX-License-Identifier: Apache-2.0
// The command: what it writes, and how it refuses.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/parallel.hpp"
#include "test/apps/report/report_scene.hpp"
#include "test/harness/captured_output.hpp"

namespace halomesh {
namespace {

struct Outcome {
  int code = 0;
  std::string out, err, error;
};

Outcome report(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "report");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  const CapturedOutput captured;
  Outcome outcome;
  outcome.error =
      error_of([&] { outcome.code = run_report(static_cast<int>(argv.size()), argv.data()); });
  outcome.out = captured.out.str();
  outcome.err = captured.err.str();
  return outcome;
}

}  // namespace

TEST_CASE("report: the command writes the page and each figure with its numbers") {
  const TempDirectory directory;
  std::filesystem::create_directory(directory / "run");
  put_contents(directory / "run" / "run.json", run_json(1, "1x1x1", 1, 4));
  put_contents(directory / "run" / "metrics.jsonl",
               step_line(1, 0, 0.8, 2) + step_line(2, 0, 0.6, 2) + eval_line(0, 0.3, 1));
  const std::string page = (directory / "page.html").string();
  const std::string figures = (directory / "figures").string();
  const Outcome outcome = report({(directory / "run").string(), (directory / "absent").string(),
                                  "-o", page, "--figures", figures});
  CHECK(outcome.error.empty());
  CHECK(outcome.code == kExitDone);
  CHECK(contains(outcome.err, "WARNING: "));
  CHECK(contains(outcome.err, "absent does not exist"));
  CHECK(contains(outcome.out, "report in " + page));
  const std::string text = contents(page);
  CHECK(contains(text, "absent does not exist"));
  CHECK(contains(text, "did not reach the target MAE of 0.124"));
  CHECK(text.size() < 2'000'000);
  for (const char* id : {"loss-over-epochs", "mae-over-time", "time-parts", "throughput-ranks"}) {
    CAPTURE(id);
    CHECK(contains(contents(directory / "figures" / (std::string(id) + ".svg")), "<svg"));
  }
  CHECK(contains(contents(directory / "figures" / "loss-over-epochs.csv"), "0.8"));
  // Nothing but the page and the figures, each complete.
  CHECK(directory.entries() == 3);
}

TEST_CASE("report: the command refuses when there is nothing to report") {
  const TempDirectory directory;
  const std::string page = (directory / "page.html").string();
  CHECK(contains(report({}).error, "no run was given"));
  const Outcome none = report({(directory / "absent").string(), "--out", page});
  CHECK(contains(none.error, "nothing could be reported"));
  CHECK(contains(none.err, "absent does not exist"));
  CHECK_FALSE(std::filesystem::exists(page));
  CHECK(contains(report({"x", "--out", (directory / "no" / "page.html").string()}).error, "page"));
  CHECK(contains(report({"x", "--out", page, "--predict", "7"}).error, "is not a configuration"));
  CHECK(contains(report({"--help"}).out, "usage: halomesh report"));
}

}  // namespace halomesh
