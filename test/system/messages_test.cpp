// SPDX-License-Identifier: Apache-2.0
// Sentences that a training prints about itself.
#include <doctest/doctest.h>

#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

/// What a training of two epochs, of two steps each, prints.
std::string printed(int ranks, const Arguments& more) {
  Scene scene;
  scene.ranks = ranks;
  scene.options["parts"] = "1x1x1";
  for (const auto& [name, value] : more) scene.options[name] = value;
  const Outcome outcome = scene.train();
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  return outcome.text;
}

bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("one of a thing is not called several") {
  const std::string one = printed(1, {{"batch", "7"}, {"skip-gradients", "1@1"}});
  CAPTURE(one);
  CHECK(says(one,
             "8 training samples, 1 step per epoch of batch 7; 1 rank as 1 replica x 1 part "
             "(1x1x1), 1 thread each\n"));
  CHECK(says(one, "dropping the last partial batch of every epoch (1 sample, different ones"));
  for (const char* wrong : {" 1 ranks", " 1 replicas", " 1 parts", " 1 threads", "(1 samples"})
    CHECK_FALSE(says(one, wrong));
}

TEST_CASE("skipped gradients are told with the bytes of their sums, where there are sums") {
  const std::string skip = "epoch 2: gradients below conv2 are skipped";
  CHECK(says(printed(1, {{"skip-gradients", "1@1"}}), skip + '\n'));
  const std::string two = printed(2, {{"skip-gradients", "1@1"}});
  CAPTURE(two);
  CHECK(says(two, skip + "; per step, the sums of gradients on all ranks now take "));
  CHECK(says(two, " MB instead of "));
}

TEST_CASE("data that cannot be read are told before a default batch that does not fit") {
  Scene scene;
  scene.ranks = 2;
  scene.options["parts"] = "1x1x1";
  scene.options.erase("batch");
  const std::string readable = scene.train().text;
  CAPTURE(readable);
  CHECK(says(readable, "a batch of 1 sample cannot be shared by 2 replicas"));
  scene.data = workshop().fresh("nowhere");
  const std::string missing = scene.train().text;
  CAPTURE(missing);
  CHECK(says(missing, scene.data.string() + "/train"));
  CHECK_FALSE(says(missing, "cannot be shared"));
}

TEST_CASE("steps at a rate of 0 are told before they are taken") {
  const std::string zero = "WARNING: the learning rate reaches 0 before the run ends after 4 steps";
  const auto decaying = [](const char* steps) {
    return printed(1, {{"schedule", "cosine"}, {"decay-steps", steps}});
  };
  CHECK(says(decaying("2"), zero));
  CHECK_FALSE(says(decaying("4"), zero));
}

}  // namespace halomesh::test
