// SPDX-License-Identifier: Apache-2.0
// train --reproducible: one loss curve and one checkpoint, byte for byte, on every mesh; and what
// it refuses.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "test/system/curve.hpp"
#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

/// Six steps of 8 samples, and one validation at their end.
Scene six_steps(int ranks, const std::string& parts) {
  Scene scene;
  scene.data = data_set(32, 24, 4);
  scene.ranks = ranks;
  scene.options["parts"] = parts;
  scene.options["batch"] = "8";
  scene.options["filters"] = "16";
  scene.options["augment"] = "on";
  scene.options["lr"] = "0.01";
  scene.options["reproducible"] = "";
  return scene;
}

/// The lines of the metrics without their seconds.
std::vector<std::string> metrics_of(const fs::path& out) {
  std::istringstream lines(read_file(out / "metrics.jsonl"));
  std::vector<std::string> metrics;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"event\":\"step\"") == std::string::npos &&
        line.find("\"event\":\"eval\"") == std::string::npos)
      continue;
    metrics.push_back(line.substr(0, line.find(",\"seconds\"")));
  }
  return metrics;
}

struct Mesh {
  int ranks;
  std::string parts;
};

}  // namespace

TEST_CASE("a reproducible run has one curve and one checkpoint on any mesh, staged or not") {
  const Scene one = six_steps(1, "1x1x1");
  const Outcome first = one.train();
  CAPTURE(first.text);
  REQUIRE(first.exit_code == 0);
  const auto expected = metrics_of(one.out);
  REQUIRE(expected.size() == 8);  // 6 steps and 2 validations
  const std::string checkpoint = read_file(checkpoints(one.out).back());
  REQUIRE(checkpoint.size() > 100000);
  bool staged = false;
  for (const Mesh& mesh :
       {Mesh{2, "1x1x1"}, {2, "1x2x1"}, {4, "2x1x1"}, {4, "1x2x2"}, {8, "2x2x2"}, {8, "1x1x4"}}) {
    CAPTURE(mesh.ranks);
    CAPTURE(mesh.parts);
    Scene scene = six_steps(mesh.ranks, mesh.parts);
    if ((staged = !staged)) scene.options["stage-dir"] = workshop().fresh("stage").string();
    const Outcome outcome = scene.train();
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    CHECK(metrics_of(scene.out) == expected);
    CHECK(read_file(checkpoints(scene.out).back()) == checkpoint);
  }
}

TEST_CASE("a reproducible run resumes as such, byte for byte on another mesh") {
  const Scene whole = six_steps(1, "1x1x1");
  REQUIRE(whole.train().exit_code == 0);
  Scene half = six_steps(2, "2x1x1");
  half.options["steps"] = "3";
  half.options["evaluate-every"] = "0";
  REQUIRE(half.train().exit_code == 0);
  Scene other = six_steps(4, "1x2x1");
  other.out = half.out;
  other.options.erase("reproducible");
  check_failure(other.train(), 1, {"reproducible on -> (none)", "--allow-changes"});
  other.options["reproducible"] = "";
  const Outcome outcome = other.train();
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  CHECK(read_file(checkpoints(other.out).back()) == read_file(checkpoints(whole.out).back()));
}

TEST_CASE("what reproducible runs do not have is refused by name") {
  struct Refused {
    Arguments options;
    std::vector<std::string> named;
  };
  const std::vector<Refused> all{
      {{{"filters", "12"}}, {"--reproducible", "--filters 12", "multiple of 16"}},
      {{{"kernel", "5"}}, {"--reproducible", "--kernel 5", "2 or 3"}},
      {{{"average", "on"}}, {"--reproducible", "--average on"}},
      {{{"batch-norm", "2"}}, {"--reproducible", "--batch-norm"}},
      {{{"kernels", "dense"}}, {"--reproducible", "--kernels dense"}},
      {{{"cuts", "space"}}, {"--reproducible", "--cuts space"}},
      {{{"reduction", "ring"}}, {"--reproducible", "--reduction ring"}},
      {{{"gradient-payload", "bf16"}}, {"--reproducible", "--gradient-payload bf16"}},
      {{{"skip-gradients", "1@1"}}, {"--reproducible", "--skip-gradients 1@1"}},
      {{{"shuffle", "local"}}, {"--reproducible", "--shuffle local"}},
      {{{"batch", "8193"}}, {"--reproducible", "8x8x8 cells of conv1", "at most 8192"}},
      {{{"parts", "3x1x1"}}, {"--reproducible", "conv1 has 8x8x8 cells", "3x1x1"}},
      {{{"conv-layers", "4"}, {"input", "24x24x24x4"}}, {"--reproducible", "--input 24x24x24x4"}}};
  for (const Refused& refused : all) {
    Scene scene = six_steps(refused.options.contains("parts") ? 3 : 1, "1x1x1");
    scene.options["batch"] = "6";
    for (const auto& [name, value] : refused.options) scene.options[name] = value;
    check_failure(scene.train(), 2, refused.named);
  }
}

}  // namespace halomesh::test
