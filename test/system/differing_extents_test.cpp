// SPDX-License-Identifier: Apache-2.0
// Volumes of different extents train from files and from a stage to the same bits, by crops and
// padded, alone and as instances; a stage reads each byte once.
#include <doctest/doctest.h>
#include <hdf5.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "test/harness/nifti_bytes.hpp"
#include "test/harness/skip.hpp"
#include "test/system/curve.hpp"
#include "test/system/spoil.hpp"
#include "test/system/staged_scene.hpp"

namespace halomesh::test {
namespace {

using Json = nlohmann::json;

constexpr std::array<Spatial, 4> kExtents{{{24, 20, 16}, {18, 22, 17}, {30, 16, 24}, {14, 21, 19}}};
constexpr std::int64_t kTraining = 7, kValidation = 3;

/// A large organ in one corner, a small lesion in another.
std::uint8_t label_of(std::int64_t sample, std::int64_t d, std::int64_t h, std::int64_t w) {
  const auto near = [&](std::int64_t at, std::int64_t radius) {
    const std::int64_t a = d - at, b = h - at, c = w - at;
    return a * a + b * b + c * c < radius * radius;
  };
  return near(11 + sample % 3, 2) ? 2 : near(6, 5) ? 1 : 0;
}

void write_cases(const fs::path& split, std::int64_t cases) {
  for (std::int64_t i = 0; i < cases; ++i) {
    const fs::path of_case = split / ("case_0000" + std::to_string(i));
    fs::create_directories(of_case);
    const Spatial& n = kExtents[static_cast<std::size_t>(i) % kExtents.size()];
    write_file(
        of_case / "imaging.nii", nifti_volume<float>(n, 16, 0, 0, [&](auto d, auto h, auto w) {
          const std::int64_t noise = ((d * 31 + h) * 37 + w * (i + 5)) % 101;
          return static_cast<float>(label_of(i, d, h, w)) + 0.01F * static_cast<float>(noise) - 1;
        }));
    write_file(of_case / "segmentation.nii",
               nifti_volume<std::uint8_t>(
                   n, 2, 0, 0, [&](auto d, auto h, auto w) { return label_of(i, d, h, w); }));
  }
}

/// Cases laid out as those of KiTS19, made once.
const fs::path& cases() {
  static const fs::path kCases = [] {
    const fs::path made = workshop().fresh("cases");
    write_cases(made / "train", kTraining);
    write_cases(made / "validation", kValidation);
    return made;
  }();
  return kCases;
}

/// An archive of them, made once; empty where NIfTI files cannot be read.
const fs::path& archive() {
  static const fs::path kArchive = [] {
    const fs::path made = workshop().fresh("archive");
    const Outcome outcome = run(2, "convert",
                                {{"from", cases().string()},
                                 {"to", made.string()},
                                 {"input", "1x1x1x1"},
                                 {"any-extents", "on"},
                                 {"classes", "3"}});
    if (outcome.text.find("holds no samples") != std::string::npos) return fs::path();
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    return made;
  }();
  return kArchive;
}

/// What is stored of voxels and labels in the files of a data set.
double stored_bytes(const fs::path& data) {
  double bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(data)) {
    if (entry.path().extension() == ".nii") bytes += static_cast<double>(entry.file_size());
    if (entry.path().extension() != ".h5") continue;
    const hid_t file = H5Fopen(entry.path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    REQUIRE(file >= 0);
    for (const char* const name : {"/x", "/labels"}) {
      const hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
      REQUIRE(set >= 0);
      bytes += static_cast<double>(H5Dget_storage_size(set));
      H5Dclose(set);
    }
    H5Fclose(file);
  }
  return bytes;
}

/// Bytes of voxels and labels of all samples where they are not compressed, each once.
double raw_bytes() {
  double bytes = 0;
  for (const std::int64_t cases : {kTraining, kValidation})
    for (std::int64_t i = 0; i < cases; ++i) {
      const Spatial& n = kExtents[static_cast<std::size_t>(i) % kExtents.size()];
      bytes += 5 * static_cast<double>(n[0] * n[1] * n[2]);
    }
  return bytes;
}

struct Mesh {
  int ranks;
  const char* parts;
};
constexpr std::array<Mesh, 3> kMeshes{{{1, "1x1x1"}, {2, "2x1x1"}, {4, "2x1x1"}}};

Scene scene_of(const fs::path& data, bool crops, const Mesh& mesh) {
  Scene scene;
  scene.data = data;
  scene.ranks = mesh.ranks;
  scene.options = {{"model", "unet3d"},   {"input", crops ? "16x16x16x1" : "30x22x24x1"},
                   {"classes", "3"},      {"levels", "3"},
                   {"filters", "4"},      {"most-filters", "16"},
                   {"parts", mesh.parts}, {"batch", "2"},
                   {"epochs", "2"},       {"lr", "0.05"},
                   {"seed", "7"},         {"augment", "on"},
                   {"pad", "-2.2"}};
  if (crops) scene.options.insert({{"patches", "random"}, {"foreground", "0.5"}});
  return scene;
}

Scene staged(const Scene& direct, const char* codec) {
  Scene scene = direct;
  scene.out = workshop().fresh("out");
  scene.options["stage-dir"] = workshop().fresh("stage").string();
  scene.options["stage-codec"] = codec;
  return scene;
}

void check_same_run(const fs::path& one, const fs::path& other) {
  check_same_curve(one, other);
  check_same_weights(checkpoints(one).back(), checkpoints(other).back());
  const auto last_evaluation = [](const fs::path& out) {
    std::istringstream lines(read_file(out / "metrics.jsonl"));
    Json last;
    for (std::string line; std::getline(lines, line);)
      if (Json json = Json::parse(line); json.at("event") == "eval") last = std::move(json);
    REQUIRE(last.is_object());
    last.erase("seconds");
    last.erase("time");
    return last.dump();
  };
  CHECK(last_evaluation(one) == last_evaluation(other));
}

}  // namespace

TEST_CASE("volumes of different extents train staged to the same bits, by crops and padded") {
  if (archive().empty()) return skip_case("built without libnifti2");
  for (const bool crops : {true, false})
    for (const Mesh& mesh : kMeshes) {
      CAPTURE(crops);
      CAPTURE(mesh.ranks);
      const Scene direct = scene_of(archive(), crops, mesh);
      succeed(direct);
      std::vector<Scene> all{staged(direct, "none"), staged(direct, "deflate")};
      if (mesh.ranks == 2) {  // from the original files as well
        Scene original = staged(direct, "none");
        original.data = cases();
        all.push_back(original);
      }
      for (const Scene& scene : all) {
        CAPTURE(scene.data);
        succeed(scene);
        check_same_run(direct.out, scene.out);
        CHECK(stage_value(scene.out, "samples") == kTraining + kValidation);
        CHECK(stage_value(scene.out, "bytes_read") == stored_bytes(scene.data));
        const double kept = stage_value(scene.out, "bytes_staged") / raw_bytes();
        CHECK(kept > 0.05);
        CHECK(kept < 1.05);  // slots are padded to 64 bytes
        CHECK(!fs::exists(scene.options.at("stage-dir")));
      }
    }
}

TEST_CASE("a kept stage of volumes gives the same crops around foreground") {
  if (archive().empty()) return skip_case("built without libnifti2");
  for (const char* const codec : {"none", "deflate"}) {
    CAPTURE(codec);
    Scene first = staged(scene_of(archive(), true, kMeshes[1]), codec);
    first.options["keep-stage"] = "";
    succeed(first);
    Scene second = first;
    second.out = workshop().fresh("out");
    second.options.erase("keep-stage");
    succeed(second);
    CHECK(stage_value(second.out, "bytes_read") == 0);
    check_same_run(first.out, second.out);
  }
}

TEST_CASE("instances share a stage of volumes of different extents, by crops and padded") {
  if (archive().empty()) return skip_case("built without libnifti2");
  for (const bool crops : {true, false})
    for (const char* const codec : {"none", "deflate"}) {
      CAPTURE(crops);
      CAPTURE(codec);
      const Scene direct = scene_of(archive(), crops, kMeshes[1]);
      Scene both = staged(direct, codec);
      both.ranks = 4;
      both.options["instances"] = "2";
      succeed(both);
      const Json record = Json::parse(read_file(both.out / "instances.json"));
      CHECK(record.at("stage").at("bytes_read") == stored_bytes(archive()));
      CHECK(record.at("stage").at("bytes_staged").get<double>() < 1.05 * raw_bytes());
      for (const int number : {0, 1}) {
        Scene alone = direct;
        alone.out = workshop().fresh("alone");
        alone.options["seed"] = std::to_string(7 + number);
        succeed(alone);
        check_same_run(alone.out, both.out / ("instance-0" + std::to_string(number)));
      }
    }
}

TEST_CASE("volumes that do not fit the input are refused by name before they are staged") {
  if (archive().empty()) return skip_case("built without libnifti2");
  const std::string small = "case_00003";
  for (const char* const instances : {"1", "2"}) {
    CAPTURE(instances);
    Scene scene = staged(scene_of(archive(), false, kMeshes[2]), "none");
    scene.options["instances"] = instances;
    scene.options["input"] = "24x20x16x1";
    check_failure(scene.train(), 1,
                  {"case_00001", "18x22x17x1", "24x20x16x1", "--input", "--patches random"});
    CHECK(!fs::exists(scene.options.at("stage-dir")));
    scene = staged(scene_of(archive(), true, kMeshes[2]), "none");
    scene.options["instances"] = instances;
    scene.options.erase("pad");
    check_failure(scene.train(), 1, {small, "14x21x19x1", "16x16x16x1", "--pad"});
    CHECK(!fs::exists(scene.options.at("stage-dir")));
  }
}

TEST_CASE("names and orientations of cases go through an archive and a network to predictions") {
  if (archive().empty()) return skip_case("built without libnifti2");
  const fs::path data = workshop().fresh("placed"), packed = workshop().fresh("packed");
  fs::copy(cases(), data, fs::copy_options::recursive);
  write_file(data / "dataset.json", R"({"classes": ["air", "kidney", "tumour"]})");
  constexpr std::array<std::array<std::int16_t, 2>, kValidation> kCodes{{{1, 1}, {1, 0}, {0, 0}}};
  const std::array<float, 6> quaternion{0, 0, 0.6F, -10, 20, -300};
  const std::array<float, 12> sform{-0.75F, 0.25F, 0, 10, 0.25F, 0.75F, 0.125F, -20, 0, 0, 3, 5.5F};
  const auto image = [](std::size_t i) { return "case_0000" + std::to_string(i); };
  for (std::size_t i = 0; i < kCodes.size(); ++i) {
    const fs::path file = data / "validation" / image(i) / "imaging.nii";
    std::string bytes = read_file(file);
    std::memcpy(bytes.data() + 252, kCodes[i].data(), 4);
    std::memcpy(bytes.data() + 256, quaternion.data(), sizeof quaternion);
    std::memcpy(bytes.data() + 280, sform.data(), sizeof sform);
    write_file(file, bytes);
  }
  const Outcome converted = run(2, "convert",
                                {{"from", data.string()},
                                 {"to", packed.string()},
                                 {"input", "1x1x1x1"},
                                 {"any-extents", "on"},
                                 {"classes", "3"}});
  CAPTURE(converted.text);
  REQUIRE(converted.exit_code == 0);
  CHECK(converted.text.find("case_00000's segmentation places voxels up to") != std::string::npos);
  const Scene scene = scene_of(packed, true, kMeshes[1]);
  succeed(scene);
  fs::remove(packed / "dataset.json");  // the checkpoint has the names as well
  const fs::path out = workshop().fresh("predicted");
  const Outcome outcome = run(2, "predict",
                              {{"checkpoint", scene.out.string()},
                               {"data", packed.string()},
                               {"out", out.string()},
                               {"windows", "uniform"},
                               {"pad", "-2.2"}});
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  for (std::size_t i = 0; i < kCodes.size(); ++i) {
    CAPTURE(i);
    const std::string bytes = read_file(out / (image(i) + ".nii"));
    REQUIRE(bytes.size() > 352);
    const auto numbers = [&](std::size_t at, auto values) {
      std::memcpy(values.data(), bytes.data() + at, sizeof values);
      return values;
    };
    CHECK(numbers(252, kCodes[i]) == kCodes[i]);
    CHECK(numbers(80, std::array<float, 3>()) == std::array<float, 3>{3, 0.75F, 0.75F});
    CHECK(bytes.substr(148, 17) == "air,kidney,tumour");
    if (kCodes[i][0] > 0)
      for (std::size_t k = 0; k < quaternion.size(); ++k)
        CHECK(numbers(256, quaternion)[k] == doctest::Approx(quaternion[k]).epsilon(1e-6));
    if (kCodes[i][1] > 0) CHECK(numbers(280, sform) == sform);
  }
}

}  // namespace halomesh::test
