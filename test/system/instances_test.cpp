// SPDX-License-Identifier: Apache-2.0
// train --instances: each instance is the run that it would be alone, whatever becomes of others.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "test/system/curve.hpp"
#include "test/system/scene.hpp"
#include "test/system/spoil.hpp"

namespace halomesh::test {
namespace {

using Json = nlohmann::json;

/// Two instances of two ranks; short steps, so that a run may have many.
Scene two_instances(int steps, bool copied = false) {
  Scene scene(copied);
  scene.options["instances"] = "2";
  scene.options["epochs"] = "0";
  scene.options["steps"] = std::to_string(steps);
  scene.options["evaluate-every"] = "10";
  scene.options["checkpoint-every"] = "5";
  return scene;
}

/// The run alone on two ranks that instance `number` of `scene` is.
Scene alone(const Scene& scene, int number) {
  Scene one = scene;
  one.out = workshop().fresh("alone");
  one.ranks = 2;
  one.options.erase("instances");
  one.options["seed"] = std::to_string(7 + number);
  return one;
}

fs::path instance(const Scene& scene, int number) {
  return scene.out / ("instance-0" + std::to_string(number));
}

void check_same_run(const fs::path& one, const fs::path& other) {
  check_same_curve(one, other);
  REQUIRE(!checkpoints(one).empty());
  CHECK(checkpoints(one).back().filename() == checkpoints(other).back().filename());
  check_same_weights(checkpoints(one).back(), checkpoints(other).back());
}

/// Lets an instance resume from weights that a large learning rate has spoilt.
void spoil(Scene& scene, int number) {
  Scene spoilt = alone(scene, number);
  spoilt.out = instance(scene, number);
  spoilt.options["lr"] = "1e30";
  spoilt.options["steps"] = "1";
  spoilt.options["evaluate-every"] = "0";
  const Outcome outcome = spoilt.train();
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  scene.options["allow-changes"] = "";
}

/// How the instances ended, e.g. "done done".
std::string results(const Scene& scene) {
  const Json record = Json::parse(read_file(scene.out / "instances.json"));
  std::string all;
  for (const Json& one : record.at("instances"))
    all += (all.empty() ? "" : " ") + one.at("result").get<std::string>();
  return all;
}

}  // namespace

TEST_CASE("instances are the runs alone, bit for bit") {
  for (const char* parts : {"1x1x1", "2x1x1"}) {
    CAPTURE(parts);
    Scene scene = two_instances(12);
    scene.options["parts"] = parts;
    const Outcome outcome = scene.train();
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    CHECK(lines_starting(outcome.text, "  instance-0") == 2);
    CHECK(outcome.text.find("models per minute") != std::string::npos);
    CHECK(results(scene) == "done done");
    for (const int number : {0, 1}) {
      const Scene one = alone(scene, number);
      REQUIRE(one.train().exit_code == 0);
      check_same_run(one.out, instance(scene, number));
      for (const char* file : {"run.json", "mllog.txt", "output.txt", "result.json"})
        CHECK(fs::exists(instance(scene, number) / file));
    }
    CHECK(read_curve(instance(scene, 0))[0].loss != read_curve(instance(scene, 1))[0].loss);
  }
}

TEST_CASE("instances stage their data once, all together, and learn the same from it") {
  for (const char* codec : {"none", "deflate"}) {
    CAPTURE(codec);
    Scene scene = two_instances(12);
    scene.options["parts"] = "2x1x1";
    scene.options["stage-codec"] = codec;
    scene.options["stage-dir"] = workshop().fresh("stage").string();
    const Outcome outcome = scene.train();
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    CHECK(lines_starting(outcome.text, "staged ") == 1);
    std::int64_t bytes = 0;
    for (const char* split : {"train", "validation"})
      for (const fs::path& file : scene.files(split))
        bytes += static_cast<std::int64_t>(fs::file_size(file));
    const Json record = Json::parse(read_file(scene.out / "instances.json"));
    CHECK(record.at("stage").at("bytes_read") == bytes);
    for (const int number : {0, 1}) {
      const Scene one = alone(scene, number);
      REQUIRE(one.train().exit_code == 0);
      check_same_run(one.out, instance(scene, number));
      const std::string log = read_file(instance(scene, number) / "mllog.txt");
      const auto at = [&](const char* key) { return log.find(key); };
      CHECK(at("run_start") < at("staging_start"));
      CHECK(at("staging_start") < at("staging_stop"));
      CHECK(at("staging_stop") < at("epoch_start"));
    }
  }
}

TEST_CASE("an instance that diverges does not stop the other") {
  Scene scene = two_instances(12);
  spoil(scene, 1);
  const Outcome outcome = scene.train();
  check_failure(outcome, 1, {"1 of 2 instances failed: instance-01", "the loss of step"});
  CHECK(results(scene) == "done diverged");
  const Scene one = alone(scene, 0);
  REQUIRE(one.train().exit_code == 0);
  check_same_run(one.out, instance(scene, 0));
}

TEST_CASE("an instance that cannot start leaves the others the shared stage") {
  Scene scene = two_instances(12);
  scene.options["parts"] = "2x1x1";
  scene.options["stage-dir"] = workshop().fresh("stage").string();
  fs::create_directories(scene.out);
  write_file(instance(scene, 1), "not a directory");
  check_failure(scene.train(), 1, {"1 of 2 instances failed: instance-01"});
  CHECK(results(scene) == "done failed");
  const Scene one = alone(scene, 0);
  REQUIRE(one.train().exit_code == 0);
  check_same_run(one.out, instance(scene, 0));
}

TEST_CASE("an error of one rank alone ends its instance only") {
  Scene scene = two_instances(12, true);
  REQUIRE(scene.train().exit_code == 0);
  const std::string before = read_file(instance(scene, 0) / "metrics.jsonl");
  fs::remove_all(instance(scene, 1));
  // One rank reads the sample and finds it damaged, while the other waits for messages.
  for (const char* parts : {"1x1x1", "2x1x1"}) {
    CAPTURE(parts);
    scene.options["parts"] = parts;
    const fs::path damaged = scene.files("train")[3];
    const std::string sound = read_file(damaged);
    flip_bit(damaged, fs::file_size(damaged) / 2);
    check_failure(scene.train(), 1, {"1 of 2 instances failed: instance-01", damaged.string()});
    CHECK(results(scene) == "done failed");
    // Those that had ended are not repeated, and the others resume once the data are sound.
    CHECK(read_file(instance(scene, 0) / "metrics.jsonl") == before);
    write_file(damaged, sound);
  }
  CHECK(scene.train().exit_code == 0);
  CHECK(results(scene) == "done done");
}

TEST_CASE("all instances that fail alike are reported once") {
  Scene scene = two_instances(12);
  scene.options["batch"] = "3";
  scene.options["parts"] = "1x1x1";
  check_failure(scene.train(), 2, {"batch of 3"});
}

TEST_CASE("instances that were killed resume bit for bit when given again") {
  const Scene scene = two_instances(300);
  {
    Job job(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
    REQUIRE(wait_until(kLimitSeconds,
                       [&] { return job.ended() || checkpoints(instance(scene, 1)).size() > 1; }));
    REQUIRE(!job.ended());
    job.signal(job.ranks().at(3), SIGKILL);
    CHECK(job.wait(kLimitSeconds).exit_code != 0);
  }
  CHECK(read_curve(instance(scene, 1)).size() < 300);
  const Outcome outcome = scene.train(120);
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  for (const int number : {0, 1}) {
    CHECK(read_file(instance(scene, number) / "output.txt").find("resuming from") !=
          std::string::npos);
    const Scene one = alone(scene, number);
    REQUIRE(one.train(120).exit_code == 0);
    check_same_run(one.out, instance(scene, number));
  }
}

TEST_CASE("a signal stops an instance cleanly, also where another has ended") {
  Scene scene = two_instances(3000);
  spoil(scene, 0);
  Job job(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
  REQUIRE(wait_until(kLimitSeconds, [&] {
    return job.ended() ||
           (job.printed().find("instance-00: diverged") != std::string::npos &&
            lines_starting(read_file(instance(scene, 1) / "metrics.jsonl"), "{") > 1);
  }));
  REQUIRE(!job.ended());
  for (const auto& rank : job.ranks()) job.signal(rank.second, SIGTERM);
  const Outcome outcome = job.wait(kLimitSeconds);
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 75);
  CHECK(results(scene) == "diverged stopped");
}

TEST_CASE("a signal to one rank stops all instances cleanly") {
  for (const int rank : {0, 3}) {
    CAPTURE(rank);
    const Scene scene = two_instances(30000);
    Job job(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
    REQUIRE(wait_until(kLimitSeconds, [&] {
      return job.ended() ||
             (lines_starting(read_file(instance(scene, 0) / "metrics.jsonl"), "{") > 1 &&
              lines_starting(read_file(instance(scene, 1) / "metrics.jsonl"), "{") > 1);
    }));
    REQUIRE(!job.ended());
    job.signal(job.ranks().at(rank), SIGTERM);
    const Outcome outcome = job.wait(kLimitSeconds);
    CAPTURE(outcome.text);
    CHECK(outcome.exit_code == 75);
    CHECK(results(scene) == "stopped stopped");
  }
}

TEST_CASE("instances that cannot be are refused with one message") {
  const auto with = [](const std::string& name, const std::string& value) {
    Scene scene = two_instances(12);
    scene.options[name] = value;
    return scene;
  };
  check_failure(with("instances", "3").train(), 2, {"--instances 3", "4 ranks", "1, 2, 4"});
  check_failure(with("trace", "t.json.gz").train(), 2,
                {"--trace has no meaning with --instances 2", "leave --trace out"});
  Scene keeping = with("keep-stage", "");
  keeping.options["stage-dir"] = "/dev/shm";
  check_failure(keeping.train(), 2, {"--keep-stage has no meaning with --instances 2"});
  check_failure(with("resume", "some.h5").train(), 2, {"--resume some.h5"});
}

}  // namespace halomesh::test
