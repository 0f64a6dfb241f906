// SPDX-License-Identifier: Apache-2.0
// Outputs replace no input, no file of a run and no sample of a data set.
#include <doctest/doctest.h>

#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

TEST_CASE("outputs replace no input, file of a run or sample") {
  Scene scene(true);
  scene.ranks = 1;
  scene.options["parts"] = "1x1x1";
  scene.options["epochs"] = "1";
  REQUIRE(scene.train().exit_code == 0);
  const fs::path checkpoint = checkpoints(scene.out).back(), run_json = scene.out / "run.json";
  const fs::path sample = scene.files("train").front();
  const fs::path config = workshop().fresh("config");
  std::ofstream(config) << "batch = 1\n";
  struct Row {
    const char* command;
    Arguments options;
    fs::path kept;  // the file that must not change
    std::string what;
  };
  const Arguments evaluation = {{"checkpoint", scene.out.string()}, {"data", scene.data.string()}};
  const auto with = [](Arguments arguments, const char* name, const fs::path& path) {
    arguments[name] = path.string();
    return arguments;
  };
  const Arguments conversion = {{"from", scene.data.string()}, {"input", "32x32x32x4"}};
  const fs::path fresh = workshop().fresh("out");
  fs::path linked = workshop().fresh("link");
  linked += ".csv";
  fs::create_symlink(checkpoint, linked);
  const std::vector<Row> rows = {
      {"predict", with(evaluation, "out", checkpoint), checkpoint,
       "lies in checkpoints/ of --checkpoint"},
      {"predict", with(with(evaluation, "checkpoint", checkpoint), "out", linked), checkpoint,
       "is an input"},
      {"predict", with(evaluation, "out", scene.data / "train/new.csv"), sample,
       "lies in train/ of --data"},
      {"predict", with(evaluation, "out", scene.data / "validation"), sample,
       "lies in validation/ of --data"},
      {"eval", with(evaluation, "json", run_json), run_json, "is a file of a training run"},
      {"eval", with(evaluation, "json", scene.data / "dataset.json"), scene.data / "dataset.json",
       "is a file of --data"},
      {"eval", with(with(evaluation, "config", config), "json", config), config, "is an input"},
      {"plan", {{"config", config.string()}, {"picture", config.string()}}, config, "is an input"},
      {"train", with(scene.arguments(), "out", scene.data / "train/run"), sample,
       "lies in train/ of --data"},
      {"train", with(scene.arguments(), "trace", run_json), run_json,
       "is a file of a training run"},
      {"train", with(with(scene.arguments(), "out", fresh), "trace", fresh / "run.json"), sample,
       "is a file of a training run"},
      {"train", with(scene.arguments(), "out", scene.out / "checkpoints"), checkpoint,
       "lies in checkpoints/ of the training run"},
      {"synth",
       {{"out", (scene.data / "train").string()}, {"extent", "16"}, {"train", "1"}},
       sample,
       "lies in train/ of the data set"},
      {"convert", with(conversion, "to", scene.data / "train/archive"), sample,
       "lies in train/ of --from"},
      {"convert", with(conversion, "to", scene.data / "train/.."), sample, "is an input: --from"},
      {"plan",
       {{"picture", (scene.out / "checkpoints/picture.svg").string()}},
       checkpoint,
       "lies in checkpoints/ of the training run"},
  };
  int compared = 0;
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const std::string before = read_file(row.kept);
    check_failure(run(0, row.command, row.options), 2, {row.what});
    CHECK(read_file(row.kept) == before);
    CHECK_FALSE(before.empty());
    ++compared;
  }
  CHECK(compared == 16);
  CHECK_FALSE(fs::exists(scene.data / "train/new.csv"));
  CHECK_FALSE(fs::exists(scene.data / "train/run"));
  // What lies beside them is written.
  CHECK(run(0, "predict", with(evaluation, "out", scene.out / "p.csv")).exit_code == 0);
  CHECK(run(0, "predict", with(evaluation, "out", scene.out / "p.csv")).exit_code == 0);
}

TEST_CASE("instances and a single run do not share a directory") {
  Scene scene;
  scene.ranks = 2;
  scene.options["parts"] = "1x1x1";
  scene.options["epochs"] = "1";
  REQUIRE(scene.train().exit_code == 0);
  scene.options["instances"] = "2";
  check_failure(scene.train(), 2, {"holds one training run"});
  CHECK_FALSE(fs::exists(scene.out / "instance-00"));
  scene.out = workshop().fresh("instances");
  REQUIRE(scene.train().exit_code == 0);
  scene.options.erase("instances");
  check_failure(scene.train(), 2, {"holds the instances of another run"});
  CHECK_FALSE(fs::exists(scene.out / "run.json"));
}

TEST_CASE("a trace is plain JSON unless its name ends in .gz") {
  Scene scene;
  scene.ranks = 2;
  scene.options["parts"] = "1x1x1";
  scene.options["epochs"] = "1";
  for (const char* name : {"t.json", "t.json.gz"}) {
    const fs::path file = workshop().fresh("trace") += name;
    scene.out = workshop().fresh("out");
    scene.options["trace"] = file.string();
    scene.options["trace-steps"] = "1+1";
    REQUIRE(scene.train().exit_code == 0);
    const std::string text = read_file(file);
    if (file.extension() == ".gz") {
      CHECK(text.starts_with("\x1f\x8b"));
    } else {
      CHECK(text.starts_with("{"));
      CHECK(text.ends_with("\n]}\n"));
    }
  }
}

TEST_CASE("a file never blocks a choice of the command line; control characters are shown") {
  Scene scene;
  const fs::path file = workshop().fresh("a\033[31m.cfg");
  std::ofstream(file) << "schedule = step\ndecay-epochs = 1\ndecay-factors = 0.5\n";
  scene.options.insert({{"config", file.string()}, {"schedule", "constant"}, {"epochs", "1"}});
  const Outcome outcome = scene.train();
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.text.find("decay-epochs, decay-factors are ignored with --schedule constant") !=
        std::string::npos);
  CHECK(lines_starting(outcome.text, "note: ") == 1);
  CHECK(outcome.text.find("\\x1b[31m.cfg") != std::string::npos);
  CHECK(outcome.text.find('\033') == std::string::npos);
  scene.options.erase("schedule");
  scene.options["config"] += ".missing";
  const Outcome missing = scene.train();
  CHECK(missing.exit_code == 2);
  CHECK(missing.text.find("\\x1b[31m.cfg") != std::string::npos);
  CHECK(missing.text.find('\033') == std::string::npos);
}

}  // namespace
}  // namespace halomesh::test
