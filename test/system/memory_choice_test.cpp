// SPDX-License-Identifier: Apache-2.0
// --recompute auto under limits of the memory of a process: off where there is room, on where there
// is not, with the same losses and weights.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "test/system/curve.hpp"
#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

using Json = nlohmann::json;

/// While this object exists, processes that are started can have `bytes` of addresses.
class AddressLimit {
 public:
  explicit AddressLimit(std::int64_t bytes) {
    REQUIRE(::getrlimit(RLIMIT_AS, &before_) == 0);
    const rlimit limit{static_cast<rlim_t>(bytes), before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_AS, &limit) == 0);
  }
  AddressLimit(const AddressLimit&) = delete;
  AddressLimit& operator=(const AddressLimit&) = delete;
  ~AddressLimit() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

/// A U-Net whose activations take most of its memory, on two parts.
Scene unet() {
  Scene scene;
  scene.data = workshop().root() / "volumes-of-64";
  if (!fs::exists(scene.data / "dataset.json")) {
    const Outcome made = run(0, "synth",
                             {{"kind", "volumes"},
                              {"input", "64x64x64x1"},
                              {"train", "2"},
                              {"validation", "1"},
                              {"out", scene.data.string()}});
    CAPTURE(made.text);
    REQUIRE(made.exit_code == 0);
  }
  scene.ranks = 2;
  scene.options = {{"model", "unet3d"}, {"input", "64x64x64x1"}, {"levels", "3"},
                   {"filters", "16"},   {"parts", "2x1x1"},      {"steps", "2"},
                   {"epochs", "0"},     {"evaluate-every", "0"}, {"recompute", "auto"}};
  return scene;
}

/// Trains where each process can have `bytes` of addresses; what was chosen, as recorded.
Json trained(const Scene& scene, std::int64_t bytes) {
  const AddressLimit limit(bytes);
  const Outcome outcome = scene.train(60);
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  const Json record = Json::parse(read_file(scene.out / "run.json"));
  Json chosen = record.at("recompute");
  CHECK(record.at("options").at("recompute") == "auto");
  CHECK(lines_starting(outcome.text, "--recompute auto: ") == 1);
  CHECK(lines_starting(outcome.text, chosen.at("on") == true
                                         ? "--recompute auto: on: a process"
                                         : "--recompute auto: off: a process") == 1);
  return chosen;
}

}  // namespace

TEST_CASE("--recompute auto computes outputs again only where memory is short, with one result") {
  constexpr std::int64_t kRoom = std::int64_t{4} << 30;
  Scene roomy = unet();
  Scene tight = roomy;
  tight.out = workshop().fresh("out");
  const Json off = trained(roomy, kRoom);
  CHECK(off.at("on") == false);
  const auto number = [&off](const char* name) { return off.at(name).get<std::int64_t>(); };
  CHECK(number("ranks") == 1);
  CHECK(number("recomputed_bytes") < number("needed_bytes"));
  REQUIRE(number("needed_bytes") < number("available_bytes"));
  // Addresses that a process has already, and as many more as it would need: too close.
  const std::int64_t bytes = kRoom - number("available_bytes") + number("needed_bytes");
  CHECK(trained(tight, bytes).at("on") == true);
  check_same_curve(roomy.out, tight.out);
  check_same_weights(checkpoints(roomy.out).back(), checkpoints(tight.out).back());
  // A run may resume with the other choice.
  for (Scene* const scene : {&roomy, &tight}) scene->options["steps"] = "4";
  CHECK(trained(roomy, bytes).at("on") == true);
  CHECK(trained(tight, kRoom).at("on") == false);
  check_same_curve(roomy.out, tight.out);
  check_same_weights(checkpoints(roomy.out).back(), checkpoints(tight.out).back());
}

TEST_CASE("bench --recompute auto says and records what it chose") {
  const fs::path file = workshop().fresh("bench.json");
  const Outcome outcome = run(2, "bench",
                              {{"model", "unet3d"},
                               {"input", "16x16x16x1"},
                               {"levels", "3"},
                               {"filters", "4"},
                               {"parts", "2x1x1"},
                               {"steps", "2"},
                               {"recompute", "auto"},
                               {"json", file.string()}});
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.text.find("--recompute auto: off: ") != std::string::npos);
  const Json chosen = Json::parse(read_file(file)).at("runs").at(0).at("recompute");
  CHECK(chosen.at("on") == false);
  CHECK(chosen.at("needed_bytes") > chosen.at("recomputed_bytes"));
}

}  // namespace halomesh::test
