// SPDX-License-Identifier: Apache-2.0
// One seed, one loss curve: for all kinds of files, staged or not, and on any mesh.
#include <doctest/doctest.h>

#include <cmath>

#include "test/system/conversion.hpp"
#include "test/system/curve.hpp"
#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

/// Eight steps, two epochs, of a data set of 32 samples under all symmetries.
Scene eight_steps(int ranks, const std::string& parts) {
  Scene scene;
  scene.data = data_set(32, 32, 4);
  scene.ranks = ranks;
  scene.options["parts"] = parts;
  scene.options["batch"] = "8";
  scene.options["augment"] = "on";
  scene.options["evaluate-every"] = "0";
  return scene;
}

std::vector<StepLine> curve_of(const Scene& scene) {
  const Outcome outcome = scene.train(60);
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  std::vector<StepLine> curve = read_curve(scene.out);
  REQUIRE(curve.size() == 8);
  return curve;
}

double largest_difference(const std::vector<StepLine>& one, const std::vector<StepLine>& other) {
  double largest = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    largest = std::max(largest, std::abs(one[i].loss - other[i].loss) / one[i].loss);
  return largest;
}

// Sums in another order differ by about 1e-7 relative. That grows a hundredfold in a few steps
// where a maximum or a sign changes hands; a wrong sample, symmetry or mask shows as 1e-2 or more.
constexpr double kTolerance = 1e-4;

struct Mesh {
  int ranks;
  std::string parts;
};

}  // namespace

TEST_CASE("one mesh has one curve, digit for digit, from every kind of files, staged or not") {
  const Scene direct = eight_steps(4, "2x1x1");
  curve_of(direct);
  const fs::path archive = workshop().fresh("archive");
  REQUIRE(run(2, "convert", conversion(direct.data, archive)).exit_code == 0);
  int compared = 0;
  for (const fs::path& data : {direct.data, archive})
    for (const char* codec : {"", "none", "deflate"}) {
      if (data == direct.data && *codec == '\0') continue;
      CAPTURE(data.string());
      CAPTURE(codec);
      Scene scene = eight_steps(4, "2x1x1");
      scene.data = data;
      if (*codec != '\0') {
        scene.options["stage-dir"] = workshop().fresh("stage").string();
        scene.options["stage-codec"] = codec;
      }
      curve_of(scene);
      check_same_curve(direct.out, scene.out);
      check_same_weights(checkpoints(direct.out).back(), checkpoints(scene.out).back());
      ++compared;
    }
  CHECK(compared == 5);
}

TEST_CASE("a global shuffle has one curve on any mesh of 1, 2, 4 and 8 ranks") {
  const auto expected = curve_of(eight_steps(1, "1x1x1"));
  bool staged = false;
  for (const Mesh& mesh : {Mesh{2, "1x1x1"},
                           {2, "1x2x1"},
                           {4, "1x1x1"},
                           {4, "2x1x1"},
                           {4, "1x2x2"},
                           {8, "1x1x1"},
                           {8, "1x1x4"},
                           {8, "2x2x2"}}) {
    CAPTURE(mesh.ranks);
    CAPTURE(mesh.parts);
    Scene scene = eight_steps(mesh.ranks, mesh.parts);
    if ((staged = !staged)) scene.options["stage-dir"] = workshop().fresh("stage").string();
    CHECK(largest_difference(expected, curve_of(scene)) <= kTolerance);
  }
}

TEST_CASE("batch norm has one curve whether its samples lie on one replica or on several") {
  const auto normalized = [](int ranks, const std::string& parts) {
    Scene scene = eight_steps(ranks, parts);
    scene.options["batch-norm"] = "4";
    return scene;
  };
  const auto expected = curve_of(normalized(1, "1x1x1"));
  for (const Mesh& mesh : {Mesh{2, "1x2x1"}, {4, "1x1x1"}, {8, "2x1x1"}, {8, "1x1x1"}}) {
    CAPTURE(mesh.ranks);
    CAPTURE(mesh.parts);
    CHECK(largest_difference(expected, curve_of(normalized(mesh.ranks, mesh.parts))) <= kTolerance);
  }
  CHECK(largest_difference(expected, curve_of(eight_steps(1, "1x1x1"))) > 10 * kTolerance);
  Scene scene = normalized(4, "1x1x1");
  scene.options["batch-norm"] = "3";
  const Outcome refused = scene.train(60);
  CHECK(refused.exit_code == 2);
  CHECK(refused.text.find("batch normalization over 3 samples does not fit a batch of ") !=
        std::string::npos);
}

TEST_CASE("two-level sums give the curve of flat ones, with the same digits each time") {
  for (const Mesh& mesh : {Mesh{4, "2x1x1"}, {8, "2x2x1"}}) {
    CAPTURE(mesh.ranks);
    const auto scene_of = [&](const char* reduction) {
      Scene scene = eight_steps(mesh.ranks, mesh.parts);
      scene.options["reduction"] = reduction;
      return scene;
    };
    const Scene one = scene_of("two-level"), again = scene_of("two-level");
    const auto curve = curve_of(one);
    CHECK(largest_difference(curve_of(scene_of("flat")), curve) <= kTolerance);
    curve_of(again);
    check_same_curve(one.out, again.out);
    check_same_weights(checkpoints(one.out).back(), checkpoints(again.out).back());
    CHECK(read_file(one.out / "run.json").find("\"reduction\": \"two-level\"") !=
          std::string::npos);
  }
}

TEST_CASE("a local shuffle has one curve for each number of replicas, on any parts") {
  const auto local = [](int ranks, const std::string& parts) {
    Scene scene = eight_steps(ranks, parts);
    scene.options["shuffle"] = "local";
    return scene;
  };
  const auto expected = curve_of(local(2, "1x1x1"));
  bool staged = false;
  for (const Mesh& mesh : {Mesh{4, "2x1x1"}, {4, "1x1x2"}, {8, "2x2x1"}, {8, "1x4x1"}}) {
    CAPTURE(mesh.ranks);
    CAPTURE(mesh.parts);
    Scene scene = local(mesh.ranks, mesh.parts);
    if ((staged = !staged)) scene.options["stage-dir"] = workshop().fresh("stage").string();
    CHECK(largest_difference(expected, curve_of(scene)) <= kTolerance);
  }
  CHECK(largest_difference(expected, curve_of(local(4, "1x1x1"))) > 10 * kTolerance);
  CHECK(largest_difference(expected, curve_of(eight_steps(2, "1x1x1"))) > 10 * kTolerance);
}

}  // namespace halomesh::test
