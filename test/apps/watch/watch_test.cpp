// SPDX-License-Identifier: Apache-2.0
// The command watch: the status of a run, its texts, the scheduler's answer and the exit codes.
#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "src/apps/launch/commands.hpp"
#include "src/apps/watch/job_state.hpp"
#include "src/apps/watch/run_status.hpp"
#include "src/apps/watch/status_text.hpp"
#include "test/harness/captured_output.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

constexpr double kStart = 1000;  // of the times in these files

std::string step_line(int step, int epoch, const std::string& loss = "0.5") {
  return fmt::format(
      R"({{"event":"step","time":{},"step":{},"epoch":{},"loss":{},"lr":0.1,"seconds":2}})"
      "\n",
      kStart + 2 * step, step, epoch, loss);
}

std::string evaluation_line(int epoch, double mae) {
  return fmt::format(
      R"({{"event":"eval","time":{},"epoch":{},"mae":{},"loss":1,"samples":4,"seconds":6}})"
      "\n",
      kStart, epoch, mae);
}

const std::string kPhasesLine =
    R"({"event":"phases","time":1000,"epoch":1,"step_seconds":{"mean":2},"kinds":[)"
    R"({"kind":"compute","mean":1.5},{"kind":"input wait","mean":0.5}],)"
    R"("limit":"waiting for input takes 25.0 % of a step"})"
    "\n";

Json run_record() {
  return {{"options",
           {{"batch", "8"},
            {"epochs", "3"},
            {"steps", "0"},
            {"evaluate-every", "1"},
            {"target-mae", "0.1"},
            {"wall-limit", "0"}}},
          {"mesh", {{"ranks", 4}}},
          {"started", "1970-01-01T00:16:40Z"}};
}

/// The files of a run of 3 epochs of 2 steps that has done 3 steps.
struct WatchedRun {
  WatchedRun() { write(); }
  void write() const {
    put_contents(directory / "run.json", record.dump());
    put_contents(directory / "metrics.jsonl", metrics);
  }
  RunStatus status(double now, double limit_s = 0) const {
    write();
    const RunFiles files(directory.path());
    return status_of(files, now, files.last_written(), limit_s);
  }

  TempDirectory directory;
  Json record = run_record();
  std::string metrics =
      step_line(1, 0, "1.5") + step_line(2, 0) + evaluation_line(0, 0.25) + step_line(3, 1);
};

/// Standard output of the command with these arguments, and its exit code.
std::pair<std::string, int> watch(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"watch", "--once"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  const CapturedOutput captured;
  const int code = run_watch(static_cast<int>(argv.size()), argv.data());
  return {captured.out.str(), code};
}

/// While it lives, these commands are the first in PATH.
class FakeCommand {
 public:
  FakeCommand(const std::string& name, const std::string& script) {
    put_contents(directory_ / name, "#!/bin/sh\n" + script);
    std::filesystem::permissions(directory_ / name, std::filesystem::perms::owner_all);
    ::setenv("PATH", (directory_.path().string() + ":" + before_).c_str(), 1);
  }
  ~FakeCommand() { ::setenv("PATH", before_.c_str(), 1); }
  std::filesystem::path operator/(const std::string& name) const { return directory_ / name; }

 private:
  TempDirectory directory_;
  std::string before_ = ::getenv("PATH");
};

}  // namespace

TEST_CASE("the status of a run: totals, rates, quality and the time left") {
  const WatchedRun run;
  const RunStatus status = run.status(kStart + 7);
  CHECK(status.state == RunState::kRunning);
  CHECK(status.step == 3);
  CHECK(status.epoch == 1);
  CHECK(status.steps == 6);  // of 2 an epoch, as the first step of the second one shows
  CHECK(status.epochs == 3);
  CHECK(status.ranks == 4);
  CHECK(status.losses == std::vector<double>{1.5, 0.5, 0.5});
  REQUIRE(status.last_evaluation);
  CHECK(status.last_evaluation->score == 0.25);
  CHECK(status.target_score == 0.1);
  CHECK(status.samples_per_s == 4);
  CHECK(status.mean_samples_per_s == 4);
  CHECK(status.silent_s == 1);
  CHECK(status.silent_limit_s == 600);
  // 3 steps of 2 s, and evaluations of 6 s after both epochs.
  CHECK(status.left_s == 3 * 2 + 2 * 6);
  CHECK_FALSE(status.wall_s);
}

TEST_CASE("run.json's samples, steps and wall limit bound a run") {
  WatchedRun run;
  run.record["samples"] = {{"training", 43}};  // 5 steps an epoch, the last 3 samples dropped
  CHECK(run.status(kStart).steps == 15);
  run.record["options"]["steps"] = "7";
  CHECK(run.status(kStart).steps == 7);
  run.record["options"]["epochs"] = "0";
  CHECK(run.status(kStart).steps == 7);
  run.record["options"]["wall-limit"] = "100";
  CHECK(run.status(kStart + 30).wall_s == 70);
  run.record = nullptr;
  const RunStatus unknown = run.status(kStart + 7);
  CHECK_FALSE(unknown.steps);
  CHECK_FALSE(unknown.left_s);
  CHECK(unknown.samples_per_s == 0);
  CHECK(unknown.state == RunState::kRunning);
}

TEST_CASE("a run is done by its end, its steps or its target, and silent after the limit") {
  WatchedRun run;
  CHECK(run.status(kStart + 605).state == RunState::kRunning);
  CHECK(run.status(kStart + 607).state == RunState::kSilent);
  CHECK(run.status(kStart + 607, 1000).state == RunState::kRunning);
  CHECK(run.status(kStart + 17, 10).state == RunState::kSilent);
  run.metrics += step_line(4, 1) + evaluation_line(1, 0.1);
  CHECK(run.status(kStart).state == RunState::kDone);  // the target
  run.record["options"]["target-mae"] = "0";
  CHECK(run.status(kStart).state == RunState::kRunning);
  run.metrics += step_line(5, 2) + step_line(6, 2);
  CHECK(run.status(kStart).state == RunState::kRunning);  // but for its last evaluation
  run.metrics += evaluation_line(2, 0.2);
  CHECK(run.status(kStart + 10000).state == RunState::kDone);
  CHECK(run.status(kStart).best_score == 0.1);
  run.metrics = step_line(1, 0);
  CHECK(run.status(kStart).state == RunState::kRunning);
  run.record["end"] = {{"result", "stopped"}};
  const RunStatus stopped = run.status(kStart);
  CHECK(stopped.state == RunState::kDone);
  CHECK(contains(status_line(stopped, ""), "stopped before the end"));
}

TEST_CASE("slow steps raise the silent limit") {
  WatchedRun run;
  run.metrics.clear();
  for (int step = 1; step <= 4; ++step)
    run.metrics += fmt::format(
        R"({{"event":"step","time":{},"step":{},"epoch":0,"loss":1,"lr":1,"seconds":90}})"
        "\n",
        100 * step, step);
  CHECK(run.status(500).silent_limit_s == 1000);
}

TEST_CASE("a sparkline spans its values and marks what is not finite") {
  CHECK(sparkline({1, 2, 3, 4, 5, 6, 7, 8}, 8, false) == "_.-~=+*#");
  CHECK(sparkline({1, 1, 8, 8}, 2, true) == "\u2581\u2588");
  CHECK(sparkline({0, std::nan(""), 1}, 10, false) == "_?#");
  CHECK(sparkline({0, 2, 1, std::nan("")}, 2, false) == "__");  // means of 1 and 1
  CHECK(sparkline({3, 3}, 4, false) == "__");
  CHECK(sparkline({}, 4, false).empty());
}

TEST_CASE("screen and line say what is known, within the width of the terminal") {
  WatchedRun run;
  run.metrics += kPhasesLine;
  run.record["job"] = {{"scheduler", "slurm"}, {"id", "42"}};
  const RunStatus status = run.status(kStart + 7);
  const std::vector<std::string> lines = status_screen(status, "RUNNING\033[2J 1:00", {60, false});
  std::string screen;
  for (const std::string& line : lines) {
    CHECK(line.size() <= 60);
    screen += line + '\n';
  }
  for (const char* part :
       {" on 4 ranks: running\n", "job     slurm 42: RUNNING?[2J 1:00\n",
        "done    step 3 of 6 (50.0 %), epoch 2 of 3\n", "left    18 s to the last step\n",
        "loss    #__ 0.5 (0.5 .. 1.5)\n", "MAE     0.25 after epoch 1, target 0.1\n",
        "speed   4 samples/s now, 4 mean\n", "time    compute 75.0 %, input wait 25.0 %\n",
        "limit   waiting for input takes 25.0 % of a step\n", "last    line 1 s ago\n"}) {
    CAPTURE(part);
    CHECK(contains(screen, part));
  }
  const std::string line = status_line(status, "RUNNING");
  CHECK(contains(line, ": running, step 3 of 6 (50.0 %), epoch 2 of 3, loss 0.5, MAE 0.25"));
  CHECK(contains(line, "input wait 25.0 %, 18 s to the last step, job RUNNING"));
}

TEST_CASE("a command that hangs is ended, and one that fails has no output") {
  CHECK(output_of({"echo", "a b"}, 10s) == "a b\n");
  CHECK_FALSE(output_of({"false"}, 10s));
  CHECK_FALSE(output_of({"no-such-command-of-halomesh"}, 10s));
  const auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(output_of({"sleep", "60"}, 100ms));
  CHECK_FALSE(output_of({"sh", "-c", "exec >&-; exec sleep 60"}, 100ms));
  CHECK_FALSE(output_of({"yes"}, 10s));
  CHECK(std::chrono::steady_clock::now() - begin < 30s);
}

TEST_CASE("the scheduler is asked by number only, without a shell") {
  const FakeCommand squeue("squeue",
                           "echo \"$@\" >\"$0.arguments\"\n[ $3 = 7 ] || echo 'RUNNING  1:02 3:04 "
                           "node[1-2]'\n");
  CHECK(job_state("slurm", "123") == "RUNNING 1:02 3:04 node[1-2]");
  CHECK(contents(squeue / "squeue.arguments") == "-h -j 123 -o %T %M %L %R\n");
  CHECK(job_state("slurm", "7") == "not in the queue");
  std::filesystem::remove(squeue / "squeue.arguments");
  for (const char* odd : {"", "1;touch x", "-u", "1 2", "12345678901234567890"})
    CHECK(job_state("slurm", odd).empty());
  CHECK(job_state("other", "123").empty());
  CHECK_FALSE(std::filesystem::exists(squeue / "squeue.arguments"));
  const FakeCommand pjstat("pjstat",
                           "echo 'JOB_ID JOB_NAME MD ST USER'\necho '12 other NM QUE me'\n"
                           "echo '123 train NM RUN me 11/22 10:00 0012:00:00 8:-'\n");
  CHECK(job_state("pjm", "123") == "RUN");
  CHECK(job_state("pjm", "5") == "not in the queue");
}

TEST_CASE("the exit code says whether a run is done, running or silent") {
  WatchedRun run;
  const std::string path = run.directory.path().string();
  // Files of this moment: the times of their lines are long ago.
  const auto running = watch({path, "--json"});
  CHECK(running.second == 3);
  const Json json = Json::parse(running.first);
  CHECK(json["state"] == "running");
  CHECK(json["step"] == 3);
  CHECK(json["steps"] == 6);
  CHECK(json["mae"] == 0.25);
  CHECK(json["seconds_left"] == 18);
  CHECK(json["loss"] == 0.5);
  for (const char* file : {"run.json", "metrics.jsonl"})
    std::filesystem::last_write_time(
        run.directory / file,
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const auto silent = watch({path});
  CHECK(silent.second == 4);
  CHECK(contains(silent.first, ": silent for 1 h 00 min\n"));
  CHECK(watch({path, "--silent-limit", "7200"}).second == 3);
  run.record["end"] = {{"result", "done"}};
  run.write();
  CHECK(watch({path}).second == 0);
  CHECK_FALSE(error_of([] { watch({"/nonexistent"}); }).empty());
  CHECK_FALSE(error_of([] { watch({}); }).empty());
}

}  // namespace halomesh
