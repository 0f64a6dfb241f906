// SPDX-License-Identifier: Apache-2.0
// Fields and labels that cannot be: each ends all ranks with one message that says what, where and
// what to do; and a class of which there is nothing is named.
#include <doctest/doctest.h>
#include <hdf5.h>

#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "test/system/curve.hpp"
#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

/// Maps of 32 rows and 32 columns, made once and copied for each test that spoils them.
Scene maps() {
  static const fs::path kMade = [] {
    fs::path data = workshop().root() / "maps-to-spoil";
    const Outcome made = run(0, "synth",
                             {{"kind", "climate"},
                              {"input", "32x1x32x16"},
                              {"train", "4"},
                              {"validation", "2"},
                              {"out", data.string()}});
    CAPTURE(made.text);
    REQUIRE(made.exit_code == 0);
    return data;
  }();
  Scene scene;
  scene.data = workshop().fresh("maps");
  fs::copy(kMade, scene.data, fs::copy_options::recursive);
  scene.out = workshop().fresh("out");
  scene.ranks = 2;
  scene.options = {{"model", "unet3d"}, {"input", "32x1x32x16"}, {"levels", "2"},
                   {"filters", "4"},    {"parts", "2x1x1"},      {"batch", "2"}};
  return scene;
}

std::vector<fs::path> images(const Scene& scene, const char* split) {
  std::set<fs::path> sorted;
  for (const auto& entry : fs::directory_iterator(scene.data / split)) sorted.insert(entry.path());
  return {sorted.begin(), sorted.end()};
}

/// Changes the elements of a dataset in place.
void change(const fs::path& path, const char* name,
            const std::function<void(std::vector<float>&)>& how) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  REQUIRE(file >= 0);
  const hid_t set = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(set);
  std::vector<float> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  REQUIRE(H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  how(values);
  REQUIRE(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  H5Sclose(space);
  H5Dclose(set);
  H5Fclose(file);
}

/// Replaces the labels by those of a map of other extents.
void shorten_labels(const fs::path& path) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  REQUIRE(file >= 0);
  const hsize_t extents[2] = {31, 32};
  const hid_t space = H5Screate_simple(2, extents, nullptr);
  REQUIRE(H5Ldelete(file, "climate/labels_0", H5P_DEFAULT) >= 0);
  H5Dclose(H5Dcreate2(file, "climate/labels_0", H5T_NATIVE_INT32, space, H5P_DEFAULT, H5P_DEFAULT,
                      H5P_DEFAULT));
  H5Sclose(space);
  H5Fclose(file);
}

void relabel(const Scene& scene, const char* split,
             const std::function<float(float label)>& relabelled) {
  for (const fs::path& file : images(scene, split))
    change(file, "climate/labels_0", [&](std::vector<float>& labels) {
      for (float& label : labels) label = relabelled(label);
    });
}

struct Row {
  std::string name;
  int exit_code;
  std::vector<std::string> named;
  std::function<void(Scene&)> spoil;
};

}  // namespace

TEST_CASE("fields and labels that cannot be end all ranks with one message") {
  constexpr const char *kData = "climate/data", *kLabels = "climate/labels_0";
  const std::string first = images(maps(), "train").front().filename().string();
  const auto spoil_first = [&](const char* set, std::size_t at, float value) {
    return [=](Scene& scene) {
      change(images(scene, "train").front(), set,
             [&](std::vector<float>& values) { values.at(at) = value; });
    };
  };
  const std::vector<Row> rows{
      {"a label without a class",
       1,
       {first, "(d,h,w) = (2,0,5)", "is 7", "0 to 2"},
       spoil_first(kLabels, 2 * 32 + 5, 7)},
      {"a NaN in a field",
       1,
       {first, "(d,h,w,c) = (1,0,3,2)", "nan", "finite"},
       spoil_first(kData, (32 + 3) * 16 + 2, std::numeric_limits<float>::quiet_NaN())},
      {"labels of another shape",
       1,
       {first, "labels_0 of 31x32", "32x32"},
       [](Scene& scene) { shorten_labels(images(scene, "train").front()); }},
      {"no ranges of the channels",
       1,
       {"stats.h5 is missing"},
       [](Scene& scene) { fs::remove(scene.data / "stats.h5"); }},
      {"other channels",
       1,
       {"16 channels", "32x1x32x15"},
       [](Scene& scene) { scene.options["input"] = "32x1x32x15"; }},
      {"maps smaller than a crop",
       1,
       {first.substr(0, first.find('.')), "32x1x32x16", "64x1x32x16", "--pad"},
       [](Scene& scene) {
         scene.options["input"] = "64x1x32x16";
         scene.options["patches"] = "random";
       }},
      {"a label without a class, found in looking for foreground",
       1,
       {first, "(d,h,w) = (2,0,5)", "is 7", "0 to 2"},
       [&](Scene& scene) {
         scene.options["patches"] = "random";
         spoil_first(kLabels, 2 * 32 + 5, 7)(scene);
       }},
      {"more levels than the extents can be halved",
       2,
       {"cannot be halved", "fewer --levels"},
       [](Scene& scene) { scene.options["levels"] = "7"; }}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    Scene scene = maps();
    row.spoil(scene);
    check_failure(scene.train(), row.exit_code, row.named);
    CHECK(checkpoints(scene.out).empty());
  }
}

TEST_CASE("a checkpoint of another network is refused, and a class without a voxel is named") {
  Scene scene = maps();
  relabel(scene, "validation", [](float label) { return label == 1 ? 0 : label; });
  const Outcome trained = scene.train();
  CAPTURE(trained.text);
  REQUIRE(trained.exit_code == 0);
  CHECK(lines_starting(trained.text, "WARNING: no voxel") == 1);
  CHECK(trained.text.find("split validation, is labelled cyclone (class 1)") != std::string::npos);
  const Outcome measured =
      run(2, "eval", {{"checkpoint", scene.out.string()}, {"data", scene.data.string()}});
  CAPTURE(measured.text);
  CHECK(measured.exit_code == 0);
  CHECK(lines_starting(measured.text, "WARNING: no voxel") == 1);
  CHECK(measured.text.find("cyclone (class 1)") != std::string::npos);
  Scene other = maps();
  other.options["filters"] = "8";
  other.options["init-from"] = checkpoints(scene.out).back().string();
  check_failure(other.train(), 1, {"filters"});
}

TEST_CASE("training names classes that no label has, once") {
  Scene scene = maps();
  scene.options["classes"] = "5";
  scene.options["epochs"] = "2";
  const Outcome trained = scene.train();
  CAPTURE(trained.text);
  REQUIRE(trained.exit_code == 0);
  CHECK(lines_starting(trained.text, "WARNING: no voxel") == 4);
  for (const std::string name : {"class 3 (class 3)", "class 4 (class 4)"})
    for (const std::string where : {"split train, that epoch 1 trained on", "split validation,"})
      CHECK(trained.text.find(where + " is labelled " + name) != std::string::npos);
}

TEST_CASE("training names a class that only its own samples lack, on any mesh and in patches") {
  for (const char* const parts : {"1x1x1", "2x1x1"})
    for (const bool patches : {false, true}) {
      CAPTURE(parts);
      CAPTURE(patches);
      Scene scene = maps();
      scene.options["parts"] = parts;
      if (patches) scene.options.insert({{"patches", "random"}, {"evaluate-every", "0"}});
      relabel(scene, "train", [](float label) { return label == 2 ? 0 : label; });
      const Outcome trained = scene.train();
      CAPTURE(trained.text);
      REQUIRE(trained.exit_code == 0);
      CHECK(lines_starting(trained.text, "WARNING: no voxel") == 1);
      CHECK(trained.text.find("split train, that epoch 1 trained on is labelled") !=
            std::string::npos);
      CHECK(trained.text.find("(class 2): the network cannot learn it") != std::string::npos);
    }
}

TEST_CASE("a validation without foreground reaches no target, also when the run is resumed") {
  Scene scene = maps();
  for (const char* const split : {"train", "validation"})
    relabel(scene, split, [](float) { return 0.0F; });
  scene.options.insert({{"lr", "0.05"}, {"target-score", "0.5"}, {"loss", "ce"}});
  for (const char* const epochs : {"4", "5"}) {
    scene.options["epochs"] = epochs;
    const Outcome trained = scene.train();
    CAPTURE(trained.text);
    REQUIRE(trained.exit_code == 0);
    CHECK(trained.text.find("validation Dice 1") != std::string::npos);
    CHECK(trained.text.find("reached the target") == std::string::npos);
    CHECK(lines_starting(trained.text, "WARNING: without any foreground") == 1);
    CHECK(trained.text.find(std::string("epochs ") + epochs + ": done") != std::string::npos);
  }
}

}  // namespace halomesh::test
