// SPDX-License-Identifier: Apache-2.0
// `jobscript` refuses what `train` would refuse when the job starts.
#include <doctest/doctest.h>

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

}  // namespace
}  // namespace halomesh::test
