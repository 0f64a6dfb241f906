// SPDX-License-Identifier: Apache-2.0
// A network of voxels from synth to eval: the same weights from files and from a stage, the same
// quality on other meshes, and messages for data that do not fit.
#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "test/system/curve.hpp"
#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

using Json = nlohmann::json;

/// Volumes with labels of three classes, and a small U-Net for those of 16^3.
Scene volumes(const std::string& extents = "16x16x16") {
  Scene scene;
  scene.data = workshop().root() / ("labelled-" + extents);
  if (!fs::exists(scene.data / "dataset.json")) {
    const Outcome made = run(0, "synth",
                             {{"kind", "volumes"},
                              {"input", extents + "x1"},
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

/// Losses of steps and validations of runs on other meshes differ by rounding alone.
void check_close(const fs::path& one, const fs::path& other) {
  const auto a = read_curve(one), b = read_curve(other);
  REQUIRE(a.size() == b.size());
  REQUIRE(!a.empty());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i].loss - b[i].loss) < 1e-4);
}

/// Trains on one part and on four, on two replicas, staged and with a compressed stage.
void check_meshes(const Scene& scene, const char* said) {
  struct Way {
    int ranks;
    const char *parts, *codec;  // null: from files
  };
  fs::path first;
  for (const Way& way : {Way{1, "1x1x1", nullptr},
                         {4, "2x2x1", nullptr},
                         {4, "1x1x2", "none"},
                         {2, "2x1x1", "deflate"}}) {
    CAPTURE(way.parts);
    Scene run = scene;
    run.ranks = way.ranks;
    run.out = workshop().fresh("out");
    run.options["parts"] = way.parts;
    if (way.codec != nullptr) {
      run.options["stage-dir"] = workshop().fresh("stage").string();
      run.options["stage-codec"] = way.codec;
    }
    const Outcome outcome = run.train();
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.text.find(said) != std::string::npos);
    CHECK(outcome.text.find("validation Dice") != std::string::npos);
    if (first.empty())
      first = run.out;
    else
      check_close(first, run.out);
  }
}

TEST_CASE("random crops of larger volumes give one curve on every mesh, staged or not") {
  Scene scene = volumes("24x20x16");  // smaller than a crop along w
  scene.options["input"] = "16x16x20x1";
  scene.options["patches"] = "random";
  scene.options["foreground"] = "0.5";
  check_failure(scene.train(), 1, {"sample", "24x20x16x1", "16x16x20x1", "--pad"});
  scene.options["pad"] = "-2.2";
  check_meshes(scene, "random crops of 16x16x20x1, 50 % of them around foreground");
}

TEST_CASE("volumes that the network cannot halve are padded, and refused without --pad") {
  Scene scene = volumes("18x22x16");
  scene.options["input"] = "18x22x16x1";
  check_failure(scene.train(), 2, {"cannot be halved", "16x20x16x1 or 20x24x16x1", "--pad"});
  scene.options["foreground"] = "0.5";
  check_failure(scene.train(), 2, {"--foreground has no meaning without --patches"});
  scene.options.erase("foreground");
  scene.options["pad"] = "0.25";
  check_meshes(scene, "samples are put into the middle of 20x24x16x1");
}

TEST_CASE("maps of different extents are converted, trained on by crops, and classified") {
  const fs::path maps = workshop().fresh("maps");
  for (const char* const input : {"32x1x48x16", "40x1x32x16"}) {
    const fs::path made = workshop().fresh("some-maps");
    REQUIRE(run(0, "synth",
                {{"kind", "climate"},
                 {"input", input},
                 {"train", "2"},
                 {"validation", "1"},
                 {"out", made.string()}})
                .exit_code == 0);
    for (const char* const split : {"train", "validation"}) {
      fs::create_directories(maps / split);
      for (const auto& entry : fs::directory_iterator(made / split))
        fs::copy(entry.path(), maps / split / (input + entry.path().filename().string()));
    }
    if (!fs::exists(maps / "stats.h5")) fs::copy(made / "stats.h5", maps / "stats.h5");
  }
  const fs::path archive = workshop().fresh("archive");
  const Outcome converted = run(2, "convert",
                                {{"from", maps.string()},
                                 {"to", archive.string()},
                                 {"input", "1x1x1x16"},
                                 {"any-extents", "on"},
                                 {"classes", "3"},
                                 {"verify", "on"}});
  CAPTURE(converted.text);
  REQUIRE(converted.exit_code == 0);
  CHECK(converted.text.find(
            "4 samples of up to 40x1x48x16 in 4 files, verified against the source") !=
        std::string::npos);
  Scene scene = volumes();
  scene.options["input"] = "32x1x32x16";
  scene.options["patches"] = "random";
  fs::path first;
  for (const fs::path& data : {maps, archive}) {
    scene.data = data;
    scene.out = workshop().fresh("out");
    const Outcome outcome = scene.train();
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    if (first.empty()) first = scene.out;
  }
  check_same_curve(first, scene.out);
  const Arguments arguments{
      {"checkpoint", scene.out.string()}, {"data", archive.string()}, {"windows", "gaussian"}};
  const Outcome measured = run(2, "eval", arguments);
  CAPTURE(measured.text);
  CHECK(measured.exit_code == 0);
  Arguments to_file = arguments;
  to_file["out"] = (workshop().fresh("predicted").string() += ".h5");
  check_failure(run(2, "predict", to_file), 1,
                {"sample 32x1x48x16data", "40x1x48x16", "one shape"});
  for (const fs::path& data : {maps, archive}) {
    scene.data = data;
    scene.options["stage-dir"] = workshop().fresh("stage").string();
    scene.out = workshop().fresh("out");
    const Outcome outcome = scene.train();
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    check_same_curve(first, scene.out);
  }
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
