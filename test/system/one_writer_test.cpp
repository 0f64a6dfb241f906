// SPDX-License-Identifier: Apache-2.0
// Two runs that want to write to the same directory: the second one is refused, and a killed run
// blocks no other. Must not depend on how the program locks, but for the file's name.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "test/system/curve.hpp"
#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

constexpr const char* kLock = "halomesh.lock";

/// The lock of a run on another node, whose heartbeat continues until this object is destroyed.
class DistantRun {
 public:
  explicit DistantRun(const fs::path& directory) : file_(directory / kLock) {
    fs::create_directories(directory);
    std::ofstream(file_) << "process 7 on host far (job 42), training since 2026-01-01T00:00:00Z\n"
                            "locked in another-boot, 7-1-1\n";
    life_ = std::thread([this] {
      for (; !ended_; std::this_thread::sleep_for(std::chrono::milliseconds(100)))
        fs::last_write_time(file_, fs::file_time_type::clock::now());
    });
  }
  DistantRun(const DistantRun&) = delete;
  DistantRun& operator=(const DistantRun&) = delete;
  ~DistantRun() {
    ended_ = true;
    life_.join();
  }

 private:
  fs::path file_;
  std::atomic<bool> ended_ = false;
  std::thread life_;
};

Scene long_run() {
  Scene scene;
  scene.options["epochs"] = "0";
  scene.options["steps"] = "400";
  scene.options["evaluate-every"] = "0";
  scene.options["checkpoint-every"] = "10";
  scene.ranks = 2;
  return scene;
}

void reach_the_middle(Job& job, const Scene& scene) {
  REQUIRE(wait_until(kLimitSeconds, [&] {
    return job.ended() ||
           lines_starting(read_file(scene.out / "metrics.jsonl"), "{\"event\":\"step\"") > 30;
  }));
  REQUIRE(!job.ended());
}

}  // namespace

TEST_CASE("a second train into the directory of a running one is refused and harms nothing") {
  const Scene scene = long_run();
  Job first(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
  reach_the_middle(first, scene);
  Scene other = scene;
  other.options["steps"] = "500";
  check_failure(other.train(), 1,
                {scene.out.string() + " is in use by process ", "training since",
                 "wait for it to end, or give another --out"});
  const Outcome outcome = first.wait(kLimitSeconds);
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 0);
  CHECK(read_curve(scene.out).size() == 400);
  CHECK(lines_starting(read_file(scene.out / "mllog.txt"), ":::MLLOG") > 0);
  for (const auto& entry : fs::recursive_directory_iterator(scene.out)) {
    CAPTURE(entry.path());
    CHECK(entry.path().extension() != ".superseded");
    CHECK(entry.path().filename() != kLock);
  }
}

TEST_CASE("a run whose processes were all killed is resumed at once") {
  const Scene scene = long_run();
  {
    Job killed(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
    reach_the_middle(killed, scene);
  }
  CHECK(fs::exists(scene.out / kLock));
  const Outcome outcome = scene.train(60);
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.text.find("waiting up to") == std::string::npos);
  CHECK(read_curve(scene.out).size() == 400);
  CHECK(!fs::exists(scene.out / kLock));
}

TEST_CASE("train, convert and synth keep out of a directory that another node writes to") {
  const Scene scene;
  const auto into = [&](const std::string& command, const fs::path& out) -> Arguments {
    if (command == "train") {
      Arguments arguments = scene.arguments();
      arguments["out"] = out.string();
      return arguments;
    }
    if (command == "synth") return {{"extent", "16"}, {"train", "2"}, {"out", out.string()}};
    return {{"from", scene.data.string()}, {"to", out.string()}, {"input", "32x32x32x4"}};
  };
  int checked = 0;
  for (const std::string command : {"train", "convert", "synth"}) {
    CAPTURE(command);
    const fs::path out = workshop().fresh("out");
    const DistantRun distant(out);
    check_failure(run(2, command, into(command, out)), 1,
                  {out.string() + " is in use by process 7 on host far (job 42)",
                   command == "convert" ? "another --to" : "another --out"});
    CHECK(std::distance(fs::directory_iterator(out), fs::directory_iterator()) == 1);
    ++checked;
  }
  CHECK(checked == 3);
}

}  // namespace halomesh::test
