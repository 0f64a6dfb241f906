// SPDX-License-Identifier: Apache-2.0
// `jobscript` refuses what `train` would refuse when the job starts.
#include <doctest/doctest.h>

#include <fstream>

#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

/// The error and its hint, without the paths before them.
std::string refusal_in(const std::string& text) {
  const std::size_t begin = text.find("halomesh: error");
  if (begin == std::string::npos) return "nothing refused";
  const std::size_t hint = text.find("  hint: ", begin);
  return text.substr(begin, text.find('\n', hint) - begin);
}

TEST_CASE("jobscript refuses what train refuses without data, with the same words") {
  const std::vector<Arguments> rows = {
      {{"schedule", "cosine"}},
      {{"schedule", "poly"}, {"decay-steps", "5"}, {"poly-power", "0"}},
      {{"schedule", "cosine"}, {"decay-steps", "5"}, {"min-lr", "1"}},
      {{"schedule", "step"}},
      {{"schedule", "step"}, {"decay-epochs", "4,2"}, {"decay-factors", "0.5,0.2"}},
      {{"schedule", "step"}, {"decay-epochs", "2,4"}, {"decay-factors", "0.5"}},
      {{"schedule", "multistep"}},
      {{"schedule", "multistep"}, {"milestones", "5,5"}},
      {{"schedule", "linear"}, {"linear-end-factor", "2"}},
      {{"optimizer", "adamw"}, {"epsilon", "0"}},
      {{"optimizer", "lamb"}, {"betas", "0.9"}},
      {{"optimizer", "lars"}, {"lars-coefficient", "0"}},
      {{"clip-norm", "-1"}},
      {{"accumulate", "3"}},
      {{"batch-norm", "3"}},
      {{"skip-gradients", "9@1"}},
      {{"skip-gradients", "2@8,1@16"}},
      {{"trace", "t.json.gz"}, {"trace-steps", "0+1"}},
      {{"trace", "t.json.gz"}, {"trace-ranks", "7"}},
      {{"reproducible", ""}, {"shuffle", "local"}},
      {{"parts", "2x1x1"}},
      {{"standardize", "1:2"}},
      {{"cuts", "conv9:1x2"}},
      {{"milestones", "5"}},
      {{"input", "3x3x3x4"}},
  };
  const fs::path out = workshop().fresh("out");
  int compared = 0;
  for (const Arguments& row : rows) {
    Arguments training = row;
    training.insert({{"data", "/nowhere"},
                     {"batch", "4"},
                     {"input", "32x32x32x4"},
                     {"conv-layers", "3"},
                     {"filters", "4"},
                     {"fc", "8"},
                     {"out", out.string()}});
    const std::string refused = refusal_in(run(0, "train", training).text);
    CAPTURE(refused);
    Arguments job = training;
    job.insert(
        {{"site", "workstation"}, {"cores", "2"}, {"ranks-per-node", "1"}, {"time", "01:00:00"}});
    CHECK(refusal_in(run(0, "jobscript", job).text) == refused);
    CHECK(refused.find("--") != std::string::npos);
    CHECK(refused.find("/nowhere") == std::string::npos);
    ++compared;
  }
  CHECK(compared == 25);
}

TEST_CASE("jobscript checks the checkpoint that a run starts from as train does") {
  Scene scene;
  scene.ranks = 1;
  scene.options["parts"] = "1x1x1";
  scene.options["epochs"] = "1";
  REQUIRE(scene.train().exit_code == 0);
  const std::string file = checkpoints(scene.out).back().string();
  const std::string text = workshop().fresh("text").string();
  std::ofstream(text) << "no checkpoint\n";
  struct Row {
    Arguments options;
    std::string what;  // in the words of both commands; empty: neither refuses
  };
  const std::vector<Row> rows = {
      {{{"resume", "/nowhere/step-000000001.h5"}}, "no such checkpoint"},
      {{{"init-from", "/nowhere/step-000000001.h5"}}, "no such checkpoint"},
      {{{"resume", text}}, "text"},
      {{{"init-from", text}}, "text"},
      {{{"resume", file}, {"filters", "8"}}, "conv1"},
      {{{"init-from", file}, {"filters", "8"}}, "conv1"},
      {{{"resume", file}, {"optimizer", "lamb"}}, "--optimizer sgd"},
      {{{"resume", file}, {"batch", "8"}}, "batch 4 -> 8"},
      {{{"resume", file}, {"lr", "0.5"}}, "0.5"},
      {{{"resume", file}, {"lr", "0.5"}, {"allow-changes", ""}}, ""},
      {{{"resume", file}}, ""},
      {{{"init-from", file}, {"lr", "0.5"}}, ""},
      {{{"out", scene.out.string()}, {"seed", "8"}}, "seed 7 -> 8"},
      {{{"out", scene.out.string()}}, ""},
      {{{"out", scene.out.string()}, {"seed", "8"}, {"resume", "never"}}, ""},
  };
  int compared = 0;
  for (const Row& row : rows) {
    CAPTURE(row.what);
    Scene changed = scene;
    changed.out = workshop().fresh("out");
    for (const auto& [name, value] : row.options) changed.options[name] = value;
    Arguments job = changed.arguments();
    job.insert(
        {{"site", "workstation"}, {"cores", "2"}, {"ranks-per-node", "1"}, {"time", "01:00:00"}});
    const Outcome script = run(0, "jobscript", job);
    CAPTURE(script.text);
    if (row.what.empty()) {
      CHECK(script.exit_code == 0);
    } else {
      const Outcome refused = run(0, "train", changed.arguments());
      CHECK(refused.exit_code == script.exit_code);
      CHECK(refusal_in(refused.text) == refusal_in(script.text));
      CHECK(refusal_in(script.text).find(row.what) != std::string::npos);
    }
    ++compared;
  }
  CHECK(compared == 15);
}

}  // namespace
}  // namespace halomesh::test
