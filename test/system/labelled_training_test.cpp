// SPDX-License-Identifier: Apache-2.0
// A network of voxels from synth to eval: the same weights from files and from a stage, the same
// quality on other meshes, and messages for data that do not fit.
#include <doctest/doctest.h>

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "test/system/curve.hpp"
#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

using Json = nlohmann::json;

/// Volumes of 16^3 with labels of three classes, and a small U-Net for them.
Scene volumes() {
  Scene scene;
  scene.data = workshop().root() / "volumes";
  if (!fs::exists(scene.data / "dataset.json")) {
    const Outcome made = run(0, "synth",
                             {{"kind", "volumes"},
                              {"input", "16x16x16x1"},
                              {"train", "8"},
                              {"validation", "4"},
                              {"out", scene.data.string()}});
    CAPTURE(made.text);
    REQUIRE(made.exit_code == 0);
  }
  scene.ranks = 2;
  scene.options = {{"model", "unet3d"}, {"input", "16x16x16x1"}, {"classes", "3"},
                   {"levels", "3"},     {"filters", "4"},        {"most-filters", "16"},
                   {"parts", "2x1x1"},  {"batch", "2"},          {"epochs", "2"},
                   {"lr", "0.05"},      {"seed", "7"},           {"augment", "on"}};
  return scene;
}

Json evaluated(const Scene& scene, int ranks, const char* parts) {
  const fs::path file = workshop().fresh("quality");
  const Outcome outcome = run(ranks, "eval",
                              {{"checkpoint", scene.out.string()},
                               {"data", scene.data.string()},
                               {"parts", parts},
                               {"baseline", "threshold"},
                               {"json", file.string()}});
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.text.find("lesion") != std::string::npos);
  return Json::parse(read_file(file));
}

}  // namespace

TEST_CASE("volumes with labels train from files and from a stage to the same weights") {
  const Scene direct = volumes();
  Scene staged = direct;
  staged.out = workshop().fresh("out");
  staged.options["stage-dir"] = workshop().fresh("stage").string();
  for (const Scene* const scene : std::initializer_list<const Scene*>{&direct, &staged}) {
    const Outcome outcome = scene->train();
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.text.find("validation Dice") != std::string::npos);
  }
  check_same_curve(direct.out, staged.out);
  check_same_weights(checkpoints(direct.out).back(), checkpoints(staged.out).back());

  const Json whole = evaluated(direct, 1, "1x1x1"), cut = evaluated(direct, 3, "1x1x3");
  CHECK(whole.at("classes").size() == 3);
  CHECK(whole.at("samples") == 4);
  CHECK(whole.at("classes").at(1).at("name") == "organ");
  const auto dice_of = [](const Json& quality, const char* baseline) {
    return quality.at("baselines").at(baseline).at("dice").get<double>();
  };
  for (const char* const baseline : {"background", "threshold"})
    CHECK(dice_of(whole, baseline) == doctest::Approx(dice_of(cut, baseline)));
  CHECK(dice_of(whole, "background") < 0.3);
  CHECK(dice_of(whole, "threshold") > dice_of(whole, "background"));
  CHECK(cut.at("loss").get<double>() == doctest::Approx(whole.at("loss").get<double>()));
}

TEST_CASE("instances share a stage of volumes with labels") {
  Scene scene = volumes();
  scene.ranks = 4;
  scene.options["instances"] = "2";
  scene.options["stage-dir"] = workshop().fresh("stage").string();
  const Outcome outcome = scene.train();
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("labels that the network does not have, and other channels, are refused") {
  Scene scene = volumes();
  scene.options["classes"] = "2";
  check_failure(scene.train(), 1, {"3 classes", "2"});
  scene = volumes();
  REQUIRE(scene.train().exit_code == 0);
  check_failure(run(1, "eval",
                    {{"checkpoint", scene.out.string()},
                     {"data", scene.data.string()},
                     {"baseline", "mean"}}),
                2, {"--baseline mean", "threshold"});
  scene = volumes();
  scene.options["input"] = "16x16x16x2";
  check_failure(scene.train(), 1, {"16x16x16x1"});
}

}  // namespace halomesh::test
