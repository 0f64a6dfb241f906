// SPDX-License-Identifier: Apache-2.0
// Runs that are killed, told to stop or fail at a damaged file, and how they resume.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "test/system/curve.hpp"
#include "test/system/scene.hpp"
#include "test/system/spoil.hpp"

namespace halomesh::test {
namespace {

constexpr int kStopped = 75;
// Many more steps than fit into the time that a launcher takes to pass on a signal.
constexpr int kSteps = 300, kInterruptAt = 30;

/// A run long enough to be interrupted in the middle: a step takes a few milliseconds.
Scene long_run(bool copied = false) {
  Scene scene(copied);
  scene.options["epochs"] = "0";
  scene.options["steps"] = std::to_string(kSteps);
  scene.options["evaluate-every"] = "40";
  scene.options["checkpoint-every"] = "10";
  return scene;
}

/// The same training, never interrupted; run once.
const fs::path& uninterrupted() {
  static const fs::path out = [] {
    const Scene scene = long_run();
    const Outcome outcome = scene.train(60);
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    return scene.out;
  }();
  return out;
}

/// Starts a run and waits until it has done some steps but not all.
void reach_the_middle(Job& job, const Scene& scene) {
  const fs::path metrics = scene.out / "metrics.jsonl";
  REQUIRE(wait_until(kLimitSeconds, [&] {
    return job.ended() || lines_starting(read_file(metrics), "{\"event\":\"step\"") > kInterruptAt;
  }));
  REQUIRE(!job.ended());
}

/// In any case the checkpoints are complete.
fs::path check_whole_checkpoints(const Scene& scene) {
  const auto files = checkpoints(scene.out);
  REQUIRE(!files.empty());
  for (const fs::path& file : files) CHECK(read_weights(file).size() > 0);
  return files.back();
}

/// Runs the same command again; it must say where it resumes, and finish.
void go_on(const Scene& scene) {
  const fs::path from = check_whole_checkpoints(scene);
  const Outcome outcome = scene.train(60);
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.text.find("resuming from " + from.string()) != std::string::npos);
  CHECK(partial_files(scene.out).empty());
}

/// The interrupted and resumed run is `whole`, which never was.
void check_same_run(const Scene& scene, const fs::path& whole = uninterrupted()) {
  check_same_curve(whole, scene.out);
  CHECK(checkpoints(whole).back().filename() == checkpoints(scene.out).back().filename());
  check_same_weights(checkpoints(whole).back(), checkpoints(scene.out).back());
}

/// A new run that receives the signal in the middle; repeated if the launcher itself crashed.
Outcome interrupt(const Scene& scene, int number, int rank) {
  return despite_launcher_crashes([&] {
    fs::remove_all(scene.out);
    Job job(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
    reach_the_middle(job, scene);
    const auto ranks = job.ranks();
    REQUIRE(static_cast<int>(ranks.size()) == scene.ranks);
    job.signal(rank < 0 ? job.launcher() : ranks.at(rank), number);
    return job.wait(kLimitSeconds);
  });
}

}  // namespace

TEST_CASE("a killed rank ends the job, and the run resumes bit for bit") {
  for (const int rank : {0, 3}) {
    CAPTURE(rank);
    const Scene scene = long_run();
    const Outcome outcome = interrupt(scene, SIGKILL, rank);
    CAPTURE(outcome.text);
    CHECK(outcome.in_time);
    CHECK(outcome.exit_code != 0);
    CHECK(outcome.exit_code != kStopped);
    // The launcher says which rank died; a survivor prints the hint.
    CHECK(lines_starting(outcome.text, "  hint: give the same command again") == 1);
    CHECK(read_curve(scene.out).size() < kSteps);
    go_on(scene);
    check_same_run(scene);
  }
}

TEST_CASE("a killed run resumes bit for bit with every other optimizer") {
  constexpr std::size_t kFewer = 120;
  for (const char* optimizer : {"nesterov", "adamw", "lamb", "lars"}) {
    CAPTURE(optimizer);
    const auto run = [&] {
      Scene scene = long_run();
      scene.options["steps"] = std::to_string(kFewer);
      scene.options["optimizer"] = optimizer;
      scene.options["weight-decay"] = "0.01";
      scene.options["schedule"] = "cosine";
      scene.options["warmup-steps"] = "20";
      scene.options["decay-steps"] = "100";
      return scene;
    };
    const Scene whole = run(), killed = run();
    const Outcome outcome = whole.train(60);
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    CHECK(interrupt(killed, SIGKILL, 1).in_time);
    CHECK(read_curve(killed.out).size() < kFewer);
    go_on(killed);
    check_same_run(killed, whole.out);
  }
}

TEST_CASE("a killed run resumes on another mesh with the same curve") {
  Scene scene = long_run();
  CHECK(interrupt(scene, SIGKILL, 1).in_time);
  scene.ranks = 2;
  scene.options["parts"] = "1x2x1";
  const std::size_t from = std::stoul(check_whole_checkpoints(scene).stem().string().substr(5));
  const std::size_t end = std::min<std::size_t>(from + 10, kSteps);
  REQUIRE(end > from);
  scene.options["steps"] = std::to_string(end);
  go_on(scene);
  const auto curve = read_curve(scene.out), expected = read_curve(uninterrupted());
  REQUIRE(curve.size() == end);
  // Sums in another order differ by about 1e-7 relative. That grows a hundredfold in a few steps
  // where a maximum or a sign changes hands, so few steps are compared; 1e-4 leaves room for one
  // such change, and a wrong sample, mask or momentum shows as 1e-2 or more at once.
  for (std::size_t i = 0; i < end; ++i)
    CHECK(std::abs(curve[i].loss - expected[i].loss) <= 1e-4 * expected[i].loss);
}

TEST_CASE("a rank told to stop ends all of them with a checkpoint and exit code 75") {
  for (const int rank : {0, 2}) {
    CAPTURE(rank);
    const Scene scene = long_run();
    const Outcome outcome = interrupt(scene, SIGTERM, rank);
    CAPTURE(outcome.text);
    CHECK(outcome.in_time);
    CHECK(outcome.exit_code == kStopped);
    CHECK(lines_starting(outcome.text, "halomesh: error") == 0);
    CHECK(partial_files(scene.out).empty());
    go_on(scene);
    check_same_run(scene);
  }
}

TEST_CASE("all signals that ask a process to stop have the same effect") {
  int checked = 0;
  for (const auto& [number, name] : std::map<int, std::string>{
           {SIGHUP, "SIGHUP"}, {SIGINT, "SIGINT"}, {SIGXCPU, "SIGXCPU"}, {SIGUSR2, "SIGUSR2"}}) {
    const std::string shown = name;  // clang 14 captures no structured binding
    CAPTURE(shown);
    const Scene scene = long_run();
    const Outcome outcome = interrupt(scene, number, 0);
    CAPTURE(outcome.text);
    CHECK(outcome.in_time);
    CHECK(outcome.exit_code == kStopped);
    CHECK(lines_starting(outcome.text, "halomesh: " + name + " received: writing a checkpoint") ==
          1);
    const std::string last = std::to_string(read_curve(scene.out).size());
    CHECK(check_whole_checkpoints(scene).stem().string().ends_with(last));
    ++checked;
  }
  CHECK(checked == 4);
}

TEST_CASE("SIGUSR1 prints the phases so far, once, and the run goes on to the same end") {
  for (const int rank : {-1, 2}) {
    CAPTURE(rank);
    const Scene scene = long_run();
    int printed = 0;
    const Outcome outcome = despite_launcher_crashes([&] {
      fs::remove_all(scene.out);
      Job job(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
      reach_the_middle(job, scene);
      job.signal(rank < 0 ? job.launcher() : job.ranks().at(rank), SIGUSR1);
      const std::size_t then = read_curve(scene.out).size();
      REQUIRE(wait_until(kLimitSeconds, [&] {
        printed = lines_starting(job.printed(), "SIGUSR1 received: ");
        return job.ended() || printed > 0;
      }));
      CHECK(read_curve(scene.out).size() >= then);
      return job.wait(kLimitSeconds);
    });
    CAPTURE(outcome.text);
    CHECK(printed == 1);
    CHECK(outcome.in_time);
    CHECK(outcome.exit_code == 0);
    CHECK(lines_starting(outcome.text, "SIGUSR1 received: the steps of this run up to step ") == 1);
    // That of the signal, and that of the end.
    CHECK(lines_starting(outcome.text, "what limits: ") == 2);
    CHECK(lines_starting(outcome.text, "  halo wait ") == 2);
    CHECK(lines_starting(outcome.text, "  " + std::to_string(kSteps) + " steps ") == 1);
    check_same_run(scene);
  }
}

TEST_CASE("a run told to stop during an evaluation stops in it and repeats it when resumed") {
  Scene scene = long_run(true);
  for (const fs::path& file : scene.files("validation"))
    for (int i = 0; i < 1500; ++i)
      fs::create_hard_link(file, file.string() + '-' + std::to_string(i) + ".tfrecord");
  scene.options["steps"] = "2";
  scene.options["evaluate-every"] = "1";
  Job job(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
  REQUIRE(wait_until(kLimitSeconds, [&] {
    return job.ended() ||
           read_file(scene.out / "mllog.txt").find("eval_start") != std::string::npos;
  }));
  job.signal(job.ranks().at(1), SIGTERM);
  const Outcome outcome = job.wait(kLimitSeconds);
  CAPTURE(outcome.text);
  CHECK(outcome.in_time);
  CHECK(outcome.exit_code == kStopped);
  const std::string metrics = read_file(scene.out / "metrics.jsonl");
  CHECK(metrics.find("\"evaluation\"") == std::string::npos);
  for (const fs::path& file : scene.files("validation"))
    if (file.string().find("tfrecord-") != std::string::npos) fs::remove(file);
  go_on(scene);
  const std::string text = read_file(scene.out / "mllog.txt");
  const auto count = [&](const std::string& key) {
    int found = 0;
    for (std::size_t at = 0; (at = text.find('"' + key + '"', at)) != std::string::npos; ++at)
      ++found;
    return found;
  };
  CHECK(count("eval_start") == 1);
  CHECK(count("eval_stop") == 1);
}

TEST_CASE(
    "eval, predict and synth told to stop end before their work does and leave no partial files") {
  const Scene scene(true);
  REQUIRE(scene.train(60).exit_code == 0);
  for (const fs::path& file : scene.files("validation"))
    for (int i = 0; i < 3000; ++i)
      fs::create_hard_link(file, file.string() + '-' + std::to_string(i) + ".tfrecord");
  const fs::path top = workshop().fresh("top");
  fs::create_directories(top);
  const Arguments over = {{"checkpoint", scene.out.string()}, {"data", scene.data.string()}};
  Arguments predicted = over;
  predicted["out"] = (top / "p.h5").string();
  const std::map<std::string, Arguments> commands = {
      {"eval", over},
      {"predict", predicted},
      {"synth", {{"extent", "64"}, {"train", "5000"}, {"out", (top / "set").string()}}}};
  int checked = 0;
  for (const auto& [command, arguments] : commands) {
    const std::string shown = command;  // clang 14 captures no structured binding
    CAPTURE(shown);
    Job job(2, command, arguments, workshop().fresh("log"));
    REQUIRE(wait_until(kLimitSeconds, [&] { return job.ended() || job.ranks().size() == 2; }));
    // Handlers are there as soon as the work has begun.
    REQUIRE(wait_until(kLimitSeconds, [&] {
      const std::string status =
          read_file("/proc/" + std::to_string(job.ranks().at(1)) + "/status");
      const std::size_t at = status.find("SigCgt:");
      return job.ended() ||
             (at != std::string::npos &&
              (std::stoull(status.substr(at + 7), nullptr, 16) >> (SIGXCPU - 1) & 1) != 0);
    }));
    REQUIRE(!job.ended());
    job.signal(job.ranks().at(1), SIGHUP);
    check_failure(job.wait(kLimitSeconds), 1,
                  {command == "synth" ? "SIGHUP received" : " received: stopped"});
    for (const auto& entry : fs::recursive_directory_iterator(top)) {
      CAPTURE(entry.path());
      CHECK(entry.path().extension() != ".partial");
      CHECK(entry.path().extension() != ".h5");
    }
    ++checked;
  }
  CHECK(checked == 3);
}

TEST_CASE("a launcher told to stop leaves a checkpoint of the last step") {
  const Scene scene = long_run();
  const Outcome outcome = interrupt(scene, SIGTERM, -1);
  CAPTURE(outcome.text);
  CHECK(outcome.in_time);
  // A launcher that is ended by a signal reports an exit code of its own, not its ranks'.
  CHECK(outcome.exit_code != 0);
  CHECK(outcome.text.find("stopped before the end, checkpoint written") != std::string::npos);
  const std::string last = std::to_string(read_curve(scene.out).size());
  CHECK(check_whole_checkpoints(scene).stem().string().ends_with(last));
  go_on(scene);
  check_same_run(scene);
}

TEST_CASE("the wall limit ends a run cleanly with exit code 75") {
  Scene scene = long_run();
  scene.options["wall-limit"] = "0.001";
  const Outcome outcome = scene.train();
  CAPTURE(outcome.text);
  CHECK(outcome.in_time);
  CHECK(outcome.exit_code == kStopped);
  CHECK(read_curve(scene.out).size() < kSteps);
  scene.options.erase("wall-limit");
  go_on(scene);
  check_same_run(scene);
}

TEST_CASE("a file damaged during training ends the run and leaves its checkpoints") {
  const Scene scene = long_run(true);
  const fs::path file = scene.files("train").at(2);
  Job job(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
  reach_the_middle(job, scene);
  flip_bit(file, 70000);
  check_failure(job.wait(kLimitSeconds), 1,
                {file.filename().string(), "checksum of the payload", "generate the file again"});
  CHECK(partial_files(scene.out).empty());
  CHECK(read_curve(scene.out).size() < kSteps);
  flip_bit(file, 70000);
  go_on(scene);
  check_same_run(scene);
}

}  // namespace halomesh::test
