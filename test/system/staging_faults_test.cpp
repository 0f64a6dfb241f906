// SPDX-License-Identifier: Apache-2.0
// Failures during staging: one message, and nothing left behind.
#include <doctest/doctest.h>

#include "test/harness/full_disk.hpp"
#include "test/system/curve.hpp"
#include "test/system/spoil.hpp"
#include "test/system/staged_scene.hpp"

namespace halomesh::test {

TEST_CASE("a RAM disk that is too small is reported before anything is written") {
  StagedScene scene;
  fs::create_directories(scene.stage);
  const SmallFileSystem disk(scene.stage, 3 << 19);
  if (!disk.mounted()) return;
  for (const bool keep : {false, true}) {
    CAPTURE(keep);
    if (keep) scene.options["keep-stage"] = "";
    // The directory may already exist, or be created by the run.
    for (const fs::path& stage : {scene.stage, scene.stage / "made"}) {
      scene.options["stage-dir"] = stage.string();
      check_failure(
          scene.train(), 1,
          {stage.string(), "the stage needs 3.2", "are available", "--stage-codec deflate"});
      CHECK(fs::is_empty(scene.stage));
    }
  }
  scene.options["stage-dir"] = scene.stage.string();
  scene.options.erase("keep-stage");
  scene.options["stage-codec"] = "deflate";
  scene.out = workshop().fresh("out");
  succeed(scene);
  CHECK(fs::is_empty(scene.stage));
}

TEST_CASE("a RAM disk that another program fills during staging gives one message") {
  StagedScene scene(true);
  multiply_samples(scene, 240);
  fs::create_directories(scene.stage);
  const SmallFileSystem disk(scene.stage, 600 << 20);
  if (!disk.mounted()) return;
  const fs::path other = scene.stage / "other";
  {
    Job job(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
    REQUIRE(wait_until(kLimitSeconds, [&] { return job.ended() || stages(job, scene.stage); }));
    const int file = ::open(other.c_str(), O_WRONLY | O_CREAT, 0600);
    for (off_t room = 580 << 20; room > 1 << 16; room -= 1 << 18)
      if (::fallocate(file, 0, 0, room) == 0) break;
    ::close(file);
    check_failure(job.wait(kLimitSeconds), 1,
                  {"cannot write", scene.stage.string(), "No space left", "--stage-codec deflate"});
  }
  fs::remove(other);
  CHECK(fs::is_empty(scene.stage));
  CHECK(fs::space(scene.stage).available == 600 << 20);
}

TEST_CASE("a damaged source ends staging, naming the file, and leaves nothing behind") {
  StagedScene scene(true);
  const fs::path file = scene.files("train").at(5);
  flip_bit(file, 70000);
  check_failure(scene.train(), 1, {file.filename().string(), "checksum of the payload"});
  scene.check_nothing_left();
  flip_bit(file, 70000);
  succeed(scene);
}

TEST_CASE("a source that disappears or is truncated during staging gives one message") {
  for (const bool vanishes : {true, false}) {
    CAPTURE(vanishes);
    StagedScene scene(true);
    multiply_samples(scene, 200);
    // A file of its own, the last one to be read.
    const fs::path victim = scene.data / "train" / "z.tfrecord";
    fs::copy_file(scene.files("train").front(), victim);
    Job job(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
    REQUIRE(wait_until(kLimitSeconds, [&] { return job.ended() || stages(job, scene.stage); }));
    const auto ranks = job.ranks();
    for (const auto& [rank, pid] : ranks) job.signal(pid, SIGSTOP);
    REQUIRE(read_file(scene.out / "metrics.jsonl").find("\"stage\"") == std::string::npos);
    if (vanishes)
      fs::remove(victim);
    else
      cut_file(victim, 1000);
    for (const auto& [rank, pid] : ranks) job.signal(pid, SIGCONT);
    check_failure(job.wait(kLimitSeconds), 1,
                  {victim.filename().string(), vanishes ? "No such file" : "truncated"});
    scene.check_nothing_left();
    CHECK(checkpoints(scene.out).empty());
  }
}

TEST_CASE("a stage directory that is a link, a file or missing is refused") {
  StagedScene scene;
  const fs::path real = workshop().fresh("real");
  fs::create_directories(real);
  fs::create_symlink(real, scene.stage);
  check_failure(scene.train(), 1, {scene.stage.string(), "symbolic link"});
  CHECK(fs::is_empty(real));
  fs::remove(scene.stage);
  std::ofstream(scene.stage) << "x";
  check_failure(scene.train(), 1, {scene.stage.string(), "Not a directory"});
  scene.options["stage-dir"] = (real / "none" / "deeper").string();
  check_failure(scene.train(), 1, {"deeper", "No such file"});
}

TEST_CASE("a rank killed or told to stop while data is staged leaves nothing behind") {
  for (const int number : {SIGKILL, SIGTERM}) {
    CAPTURE(number);
    StagedScene scene(true);
    multiply_samples(scene, 60);
    scene.options["keep-stage"] = "";
    scene.options["steps"] = "3";
    scene.options["evaluate-every"] = "0";
    Job job(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
    REQUIRE(wait_until(kLimitSeconds, [&] { return job.ended() || stages(job, scene.stage); }));
    REQUIRE(!job.ended());
    job.signal(job.ranks().at(1), number);
    const Outcome outcome = job.wait(kLimitSeconds);
    CAPTURE(outcome.text);
    CHECK(outcome.in_time);
    const bool staged =
        read_file(scene.out / "metrics.jsonl").find("\"stage\"") != std::string::npos;
    if (staged) MESSAGE("the signal came after staging");
    CHECK(outcome.exit_code != 0);
    if (number == SIGTERM) CHECK(outcome.exit_code == kStopped);
    std::int64_t blocks = 0;
    std::error_code none;
    for (const auto& entry : fs::recursive_directory_iterator(scene.stage, none))
      blocks += entry.is_regular_file() ? static_cast<std::int64_t>(entry.file_size()) : 0;
    if (!staged) CHECK(blocks < 1000);  // locks of killed ranks
    if (!staged && number == SIGTERM) scene.check_nothing_left();
    succeed(scene);
    CHECK(read_curve(scene.out).size() == 3);
  }
}

TEST_CASE("a rank killed during the shuffle leaves nothing, and the run resumes bit for bit") {
  const auto long_run = [](Scene& scene) {
    scene.options["epochs"] = "0";
    scene.options["steps"] = "80";
    scene.options["evaluate-every"] = "40";
    scene.options["checkpoint-every"] = "10";
    scene.options["augment"] = "on";
  };
  Scene direct;
  long_run(direct);
  succeed(direct, 90);
  StagedScene scene;
  long_run(scene);
  Job job(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
  REQUIRE(wait_until(kLimitSeconds, [&] {
    return job.ended() ||
           lines_starting(read_file(scene.out / "metrics.jsonl"), "{\"event\":\"step\"") > 12;
  }));
  REQUIRE(!job.ended());
  job.signal(job.ranks().at(2), SIGKILL);
  CHECK(job.wait(kLimitSeconds).in_time);
  scene.check_nothing_left();
  succeed(scene, 90);
  check_same_curve(direct.out, scene.out);
  scene.check_nothing_left();
}

}  // namespace halomesh::test
