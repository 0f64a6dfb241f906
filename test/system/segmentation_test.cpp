// SPDX-License-Identifier: Apache-2.0
// What predict and eval do with networks that classify voxels: files that are the same on any mesh
// and say what eval says, whole samples, windows and padding.
#include <doctest/doctest.h>
#include <hdf5.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "test/harness/skip.hpp"
#include "test/system/curve.hpp"
#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

using Json = nlohmann::json;
using Labels = std::vector<std::uint8_t>;

constexpr int kSamples = 3;

fs::path volumes(const std::string& extents) {
  fs::path data = workshop().root() / ("volumes-" + extents);
  if (fs::exists(data / "dataset.json")) return data;
  const Outcome made = run(0, "synth",
                           {{"kind", "volumes"},
                            {"input", extents + "x1"},
                            {"train", "8"},
                            {"validation", std::to_string(kSamples)},
                            {"out", data.string()}});
  CAPTURE(made.text);
  REQUIRE(made.exit_code == 0);
  return data;
}

/// A small U-Net to be trained on volumes of 16^3.
Scene small_unet(const char* precision) {
  Scene scene;
  scene.data = volumes("16x16x16");
  scene.out = workshop().root() / (std::string("segmentation-run-") + precision);
  scene.ranks = 2;
  scene.options = {{"model", "unet3d"},    {"input", "16x16x16x1"}, {"levels", "3"},
                   {"filters", "4"},       {"most-filters", "16"},  {"parts", "2x1x1"},
                   {"batch", "2"},         {"epochs", "10"},        {"lr", "0.01"},
                   {"optimizer", "adamw"}, {"seed", "7"},           {"precision", precision}};
  return scene;
}

/// It, trained once for all tests.
const fs::path& trained() {
  static const fs::path kRun = [] {
    const Scene scene = small_unet("fp32");
    const Outcome outcome = scene.train();
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    return scene.out;
  }();
  return kRun;
}

struct Mesh {
  int ranks;
  const char* parts;
};
constexpr Mesh kMeshes[] = {{1, "1x1x1"}, {3, "1x1x3"}, {4, "1x2x1"}};

Arguments arguments_for(const fs::path& data, const Mesh& mesh, Arguments more) {
  more.insert({{"checkpoint", trained().string()}, {"data", data.string()}, {"parts", mesh.parts}});
  return more;
}

Json evaluated(const fs::path& data, const Mesh& mesh, Arguments more) {
  const fs::path file = workshop().fresh("quality");
  more["json"] = file.string();
  const Outcome outcome = run(mesh.ranks, "eval", arguments_for(data, mesh, more));
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  return Json::parse(read_file(file));
}

fs::path predicted(const fs::path& data, const Mesh& mesh, Arguments more) {
  fs::path file = workshop().fresh("predicted");
  file += ".h5";
  more["out"] = file.string();
  const Outcome outcome = run(mesh.ranks, "predict", arguments_for(data, mesh, more));
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  const bool is_counted = outcome.text.find("1 segmentation in ") != std::string::npos ||
                          outcome.text.find(" segmentations in ") != std::string::npos;
  CHECK(is_counted);
  return file;
}

template <class T>
std::vector<T> read_all(const fs::path& path, const char* name, hid_t type) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  REQUIRE(file >= 0);
  const hid_t set = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(set);
  std::vector<T> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  REQUIRE(H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  H5Sclose(space);
  H5Dclose(set);
  H5Fclose(file);
  return values;
}

/// The mean Dice coefficient of classes 1 and 2 over samples, of a file of predictions.
double dice_of(const fs::path& file, const fs::path& data) {
  const auto found = read_all<std::uint8_t>(file, "/predicted", H5T_NATIVE_UINT8);
  const auto labels =
      read_all<std::uint8_t>(data / "validation-00000.h5", "/labels", H5T_NATIVE_UINT8);
  REQUIRE(found.size() == labels.size());
  REQUIRE(!labels.empty());
  const std::size_t voxels = labels.size() / kSamples;
  double sum = 0;
  for (std::size_t sample = 0; sample < kSamples; ++sample)
    for (int c = 1; c <= 2; ++c) {
      int both = 0, correct = 0;
      for (std::size_t i = sample * voxels; i < (sample + 1) * voxels; ++i) {
        both += (found[i] == c ? 1 : 0) + (labels[i] == c ? 1 : 0);
        correct += found[i] == c && labels[i] == c ? 1 : 0;
      }
      sum += both == 0 ? 1 : 2.0 * correct / both;
    }
  return sum / (2 * kSamples);
}

fs::path only_file(const fs::path& directory) {
  const auto files = fs::directory_iterator(directory);
  REQUIRE(files != fs::directory_iterator());
  return files->path();
}

/// Rows of an image of the climate and of its labels, as a file of its own.
void copy_rows(const fs::path& from, const fs::path& to, std::int64_t first, std::int64_t rows) {
  fs::create_directories(to.parent_path());
  const hid_t source = H5Fopen(from.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t file = H5Fcreate(to.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  REQUIRE(source >= 0);
  REQUIRE(file >= 0);
  H5Gclose(H5Gcreate2(file, "climate", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  for (const char* const name : {"climate/data", "climate/labels_0"}) {
    const hid_t set = H5Dopen2(source, name, H5P_DEFAULT), all = H5Dget_space(set);
    hsize_t extents[3] = {}, begin[3] = {};
    const int axes = H5Sget_simple_extent_dims(all, extents, nullptr);
    REQUIRE(axes >= 2);
    begin[0] = static_cast<hsize_t>(first);
    extents[0] = static_cast<hsize_t>(rows);
    H5Sselect_hyperslab(all, H5S_SELECT_SET, begin, nullptr, extents, nullptr);
    const hid_t some = H5Screate_simple(axes, extents, nullptr);
    std::vector<float> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(some)));
    REQUIRE(H5Dread(set, H5T_NATIVE_FLOAT, some, all, H5P_DEFAULT, values.data()) >= 0);
    const hid_t copy =
        H5Dcreate2(file, name, H5T_NATIVE_FLOAT, some, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    REQUIRE(H5Dwrite(copy, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
    H5Dclose(copy);
    H5Sclose(some);
    H5Sclose(all);
    H5Dclose(set);
  }
  H5Fclose(file);
  H5Fclose(source);
}

/// Predictions on all meshes are the same file, which says what eval says.
void check_predictions(const fs::path& data, const Arguments& more) {
  const fs::path first = predicted(data, kMeshes[0], more);
  for (const Mesh& mesh : kMeshes) {
    CAPTURE(mesh.parts);
    CHECK(read_file(predicted(data, mesh, more)) == read_file(first));
    CHECK(evaluated(data, mesh, more).at("dice").get<double>() ==
          doctest::Approx(dice_of(first, data)).epsilon(1e-12));
  }
}

}  // namespace

TEST_CASE("a U-Net learns to classify voxels in bf16 as in fp32") {
  Scene narrow = small_unet("bf16");
  narrow.options["evaluate-first"] = "";
  const Outcome outcome = narrow.train();
  CAPTURE(outcome.text);
  if (outcome.exit_code == 2 && outcome.text.find("no instructions for bf16") != std::string::npos)
    return skip_case("this CPU has no instructions for bf16");
  REQUIRE(outcome.exit_code == 0);
  const auto wide = read_curve(trained()), curve = read_curve(narrow.out);
  REQUIRE(curve.size() == 40);
  REQUIRE(wide.size() == 40);
  // Rounded, but from the same weights.
  CHECK(curve[0].loss != wide[0].loss);
  CHECK(std::abs(curve[0].loss - wide[0].loss) <= 0.02 * wide[0].loss);
  CHECK(curve.back().loss < 0.6 * curve[0].loss);
  CHECK(std::abs(curve.back().loss - wide.back().loss) <= 0.1 * wide.back().loss);
  const double of_wide = evaluated(narrow.data, kMeshes[1], {}).at("dice").get<double>();
  const double of_narrow = evaluated(narrow.data, kMeshes[1], {{"checkpoint", narrow.out.string()}})
                               .at("dice")
                               .get<double>();
  CHECK(of_narrow > 0.4);  // 0.02 before the first step
  CHECK(of_narrow > 0.9 * of_wide);
}

TEST_CASE("predict writes the classes of voxels, the same on any mesh, with eval's Dice") {
  const fs::path data = volumes("16x16x16");
  check_predictions(data, {});
  const fs::path file = predicted(data, kMeshes[2], {{"probabilities", ""}});
  const auto classes = read_all<std::uint8_t>(file, "/predicted", H5T_NATIVE_UINT8);
  const auto shares = read_all<float>(file, "/probabilities", H5T_NATIVE_FLOAT);
  REQUIRE(shares.size() == 3 * classes.size());
  std::size_t foreground = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const float* const p = &shares[3 * i];
    REQUIRE(p[0] + p[1] + p[2] == doctest::Approx(1));
    for (std::size_t c = 0; c < 3; ++c) REQUIRE(p[c] <= p[classes[i]]);
    foreground += classes[i] > 0 ? 1 : 0;
  }
  CHECK(foreground > 0);
  const std::string bytes = read_file(file);
  CHECK(bytes.find("background,organ,lesion") != std::string::npos);
  CHECK(bytes.find("validation-00000:0\nvalidation-00000:1") != std::string::npos);
}

TEST_CASE("predict writes NIfTI files with the values of the HDF5 file on any mesh") {
  const fs::path data = volumes("18x17x21");
  const Arguments padded{{"input", "18x17x21x1"}, {"pad", "-2.2"}, {"probabilities", ""}};
  const fs::path file = predicted(data, kMeshes[0], padded);
  const auto classes = read_all<std::uint8_t>(file, "/predicted", H5T_NATIVE_UINT8);
  const auto shares = read_all<float>(file, "/probabilities", H5T_NATIVE_FLOAT);
  for (const Mesh& mesh : kMeshes) {
    CAPTURE(mesh.parts);
    Arguments more = padded;
    const fs::path out = workshop().fresh("nifti");
    more["out"] = out.string();
    const Outcome outcome = run(mesh.ranks, "predict", arguments_for(data, mesh, more));
    CAPTURE(outcome.text);
    if (outcome.text.find("cannot be written to such a file") != std::string::npos)
      return skip_case("built without libnifti2");
    REQUIRE(outcome.exit_code == 0);
    std::size_t wrong = 0, at = 0;
    for (int sample = 0; sample < kSamples; ++sample) {
      const std::string stem = (out / ("validation-00000-" + std::to_string(sample))).string();
      const std::string labels = read_file(stem + ".nii");
      const std::string values = read_file(stem + "_probabilities.nii");
      constexpr std::size_t kHeader = 352, kVoxels = std::size_t{18} * 17 * 21;
      REQUIRE(labels.size() == kHeader + kVoxels);
      REQUIRE(values.size() == kHeader + kVoxels * 3 * 4);
      // As nifti1.h describes them: sizes from byte 40 on, type at 70, magic at 344.
      std::int16_t dim[8] = {}, type = 0;
      std::memcpy(dim, values.data() + 40, sizeof dim);
      std::memcpy(&type, values.data() + 70, sizeof type);
      CHECK(std::vector<int>(dim, dim + 5) == std::vector<int>{4, 18, 17, 21, 3});
      CHECK(type == 16);
      CHECK(labels.substr(344, 4) == std::string("n+1\0", 4));
      for (std::size_t d = 0; d < 18; ++d)
        for (std::size_t h = 0; h < 17; ++h)
          for (std::size_t w = 0; w < 21; ++w, ++at) {
            const std::size_t voxel = (w * 17 + h) * 18 + d;
            wrong += static_cast<std::uint8_t>(labels[kHeader + voxel]) != classes[at];
            for (std::size_t c = 0; c < 3; ++c) {
              float share = 0;  // norms add up parts in another order than one rank does
              std::memcpy(&share, &values[kHeader + 4 * (c * kVoxels + voxel)], 4);
              wrong += !(std::abs(share - shares[3 * at + c]) < 1e-5F);
            }
          }
    }
    CHECK(at == classes.size());
    CHECK(wrong == 0);
    CHECK(std::distance(fs::directory_iterator(out), {}) == 2 * kSamples);
  }
}

TEST_CASE("windows slide over larger volumes, the same on any mesh") {
  const fs::path data = volumes("24x20x32");
  const Arguments windows{{"input", "24x20x32x1"}, {"windows", "gaussian"}};
  check_predictions(data, windows);
  Arguments padded = windows;
  padded["pad"] = "-2.2";
  check_predictions(data, padded);
  CHECK(read_file(predicted(data, kMeshes[0], windows)) !=
        read_file(predicted(data, kMeshes[0], padded)));
}

TEST_CASE("outputs of windows are averaged with Gaussian weights") {
  // Maps of 64 rows, and each of its three windows of 32 rows as a map of its own.
  constexpr std::int64_t kRows = 64, kWindow = 32, kColumns = 32;
  const fs::path data = workshop().root() / "maps", crops = workshop().root() / "crops";
  const Outcome made = run(0, "synth",
                           {{"kind", "climate"},
                            {"input", "64x1x32x16"},
                            {"train", "2"},
                            {"validation", "1"},
                            {"out", data.string()}});
  REQUIRE(made.exit_code == 0);
  for (const std::int64_t first : {0, 16, 32})
    copy_rows(only_file(data / "validation"),
              crops / "validation" / (std::to_string(first) + ".h5"), first, kWindow);
  copy_rows(only_file(data / "validation"), crops / "train" / "0.h5", 0, kWindow);
  fs::copy_file(data / "stats.h5", crops / "stats.h5");
  Scene scene;
  scene.data = crops;
  scene.out = workshop().fresh("out");
  scene.ranks = 1;
  scene.options = {{"model", "unet3d"}, {"input", "32x1x32x16"}, {"levels", "2"},
                   {"filters", "4"},    {"epochs", "5"},         {"lr", "0.01"}};
  REQUIRE(scene.train().exit_code == 0);
  const auto shares = [&](const fs::path& from, const Mesh& mesh, Arguments more) {
    more.insert({{"checkpoint", scene.out.string()}, {"probabilities", ""}});
    return read_all<float>(predicted(from, mesh, more), "/probabilities", H5T_NATIVE_FLOAT);
  };
  const std::vector<float> of_crops = shares(crops, kMeshes[0], {});
  for (const Mesh& mesh : {Mesh{1, "1x1x1"}, Mesh{4, "2x1x1"}}) {
    const std::vector<float> of_map =
        shares(data, mesh, {{"input", "64x1x32x16"}, {"windows", "gaussian"}});
    REQUIRE(of_map.size() == static_cast<std::size_t>(3 * kRows * kColumns));
    // A softmax differs from the exponentials by a factor that the classes have in common: so the
    // weighted means of logarithms of the windows' shares have the softmax that is expected.
    for (std::int64_t row = 0; row < kRows; ++row)
      for (std::int64_t column = 0; column < kColumns; ++column) {
        double logs[3] = {}, total = 0, sum = 0;
        for (std::int64_t k = 0; k < 3; ++k) {
          const std::int64_t at = row - 16 * k;
          if (at < 0 || at >= kWindow) continue;
          const double r = (static_cast<double>(at) - 15.5) / 4;
          const double weight = std::exp(-r * r / 6);
          total += weight;
          for (std::int64_t c = 0; c < 3; ++c) {
            const auto i =
                static_cast<std::size_t>(((k * kWindow + at) * kColumns + column) * 3 + c);
            logs[c] += weight * std::log(static_cast<double>(of_crops[i]));
          }
        }
        for (const double log : logs) sum += std::exp(log / total);
        for (std::int64_t c = 0; c < 3; ++c)
          REQUIRE(of_map[static_cast<std::size_t>((row * kColumns + column) * 3 + c)] ==
                  doctest::Approx(std::exp(logs[c] / total) / sum).epsilon(1e-4));
      }
  }
}

TEST_CASE("one window is the whole sample") {
  const fs::path data = volumes("16x16x16");
  for (const char* const weights : {"uniform", "gaussian"})
    CHECK(dice_of(predicted(data, kMeshes[1], {{"windows", weights}}), data) ==
          doctest::Approx(dice_of(predicted(data, kMeshes[0], {}), data)));
}

TEST_CASE("a network of convolutions runs on whole volumes of other extents, padded if need be") {
  check_predictions(volumes("24x20x32"), {{"input", "24x20x32x1"}});
  const fs::path uneven = volumes("18x17x21");
  check_predictions(uneven, {{"input", "18x17x21x1"}, {"pad", "-2.2"}});
  const Mesh& one = kMeshes[0];
  check_failure(run(1, "eval", arguments_for(uneven, one, {{"input", "18x17x21x1"}})), 2,
                {"18x17x21x1", "20x20x24x1", "--pad"});
}

TEST_CASE("predictions of voxels that cannot be are refused with one message") {
  const fs::path data = volumes("16x16x16");
  const Mesh& one = kMeshes[0];
  const auto refused = [&](const char* command, Arguments more, int code,
                           const std::vector<std::string>& named) {
    const fs::path file = workshop().fresh("refused");
    if (std::string(command) == "predict" && more.count("out") == 0)
      more["out"] = file.string() + ".h5";
    check_failure(run(2, command, arguments_for(data, {2, "2x1x1"}, more)), code, named);
  };
  refused("predict", {{"out", (workshop().root() / "x.csv").string()}}, 2, {"x.csv", ".h5"});
  refused("eval", {{"input", "16x16x16x2"}}, 2, {"16x16x16x2", "1 channels", "16x16x16x1"});
  refused("eval", {{"input", "24x24x24x1"}}, 1, {"16x16x16", "--input"});
  refused("eval", {{"overlap", "0.2"}}, 2, {"--overlap", "--windows"});
  const fs::path small = volumes("16x16x20");
  static_cast<void>(one);
  check_failure(
      run(1, "eval", arguments_for(small, one, {{"input", "16x12x20x1"}, {"windows", "gaussian"}})),
      1, {"16x12x20", "16x16x16", "height", "--pad"});
}

}  // namespace halomesh::test
