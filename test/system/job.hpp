// SPDX-License-Identifier: Apache-2.0
// Starts the program under the launcher, waits for it to end within a limit, and reads its output.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "test/harness/patience.hpp"

namespace halomesh::test {

namespace fs = std::filesystem;

/// Option values by option name, without the dashes; an empty value makes a switch.
using Arguments = std::map<std::string, std::string>;

inline std::string environment(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : fallback;
}

inline std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// How many lines of `text` start with `start`.
inline int lines_starting(const std::string& text, const std::string& start) {
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line);) count += line.starts_with(start) ? 1 : 0;
  return count;
}

/// True when `text` reports that the launcher, process `pid`, crashed in PMIx_server_finalize(),
/// and no other process did. Open MPI 4.1.4 with PMIx 4.2.2 does so now and then when its ranks are
/// gone; its exit code then says nothing. Each line of a report starts with "[host:PID]".
inline bool reports_launcher_crash(const std::string& text, pid_t pid) {
  bool finalizing = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool of_launcher = line.find(':' + std::to_string(pid) + ']') < line.find(' ');
    if (line.find("*** Process received signal ***") != std::string::npos && !of_launcher)
      return false;
    finalizing =
        finalizing || (of_launcher && line.find("(PMIx_server_finalize+") != std::string::npos);
  }
  return finalizing;
}

/// How a job ended and everything it printed, standard output before standard error.
struct Outcome {
  bool in_time = false;
  int exit_code = -1;  ///< 128 + the signal where one ended the launcher
  std::string text;
  bool launcher_crashed = false;  ///< see reports_launcher_crash(): tells nothing about the program
};

/// A running job: the launcher and its ranks, which are killed by the destructor.
class Job {
 public:
  /// Runs `halomesh command` on `ranks` ranks; 0: without a launcher.
  Job(int ranks, const std::string& command, const Arguments& arguments, fs::path log)
      : log_(std::move(log)) {
    std::vector<std::string> words;
    if (ranks > 0) {
      std::istringstream launcher(environment("MPIRUN", "mpirun"));
      words.assign(std::istream_iterator<std::string>(launcher), {});
      words.insert(words.end(), {"-n", std::to_string(ranks)});
    }
    words.insert(words.end(), {environment("HALOMESH", "build/halomesh"), command});
    for (const auto& [name, value] : arguments) {
      words.push_back("--" + name);
      if (!value.empty()) words.push_back(value);
    }
    spawn(words);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    if (!reaped_) kill_all();
  }

  /// The processes of the ranks that are already running, by rank.
  std::map<int, pid_t> ranks() const {
    std::map<int, pid_t> found;
    for (const pid_t pid : descendants()) {
      const std::string variables = '\0' + read_file(process(pid) / "environ");
      for (const char* name : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="}) {
        const std::size_t at = variables.find('\0' + std::string(name));
        if (at == std::string::npos || read_file(process(pid) / "comm") != "halomesh\n") continue;
        found[std::stoi(variables.substr(at + 1 + std::string(name).size()))] = pid;
        break;
      }
    }
    return found;
  }

  pid_t launcher() const { return pid_; }
  /// What it has written to standard output so far.
  std::string printed() const { return read_file(file("out")); }
  bool ended() { return reaped_ || reap(WNOHANG); }

  /// Sends a signal to the launcher or to one of ranks().
  void signal(pid_t pid, int number) {
    REQUIRE(pid > 1);
    REQUIRE(::kill(pid, number) == 0);
  }

  /// Waits for the end; a job that needs longer than `limit_s` is killed.
  Outcome wait(double limit_s) {
    Outcome outcome;
    outcome.in_time = wait_until(limit_s, [this] { return ended(); });
    if (!outcome.in_time) kill_all();
    outcome.exit_code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
    outcome.text = read_file(file("out")) + read_file(file("err"));
    outcome.launcher_crashed =
        outcome.exit_code == 128 + SIGSEGV && reports_launcher_crash(outcome.text, pid_);
    return outcome;
  }

 private:
  fs::path file(const char* extension) const { return log_.string() + '.' + extension; }
  static fs::path process(pid_t pid) { return fs::path("/proc") / std::to_string(pid); }

  void spawn(std::vector<std::string>& words) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, file("out").c_str(), flags, 0666);
    posix_spawn_file_actions_addopen(&actions, 2, file("err").c_str(), flags, 0666);
    const int error = posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    CAPTURE(words.front());
    reaped_ = error != 0;
    REQUIRE(error == 0);
  }

  /// The processes that this job's launcher has started, at any depth.
  std::vector<pid_t> descendants() const {
    std::map<pid_t, pid_t> parents;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      pid_t pid = 0;
      if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
      const std::string stat = read_file(entry.path() / "stat");
      std::istringstream fields(stat.substr(std::min(stat.rfind(')') + 2, stat.size())));
      std::string state;
      pid_t parent = 0;
      if (fields >> state >> parent) parents[pid] = parent;
    }
    std::vector<pid_t> found{pid_};
    for (std::size_t i = 0; i < found.size(); ++i)
      for (const auto& [child, parent] : parents)
        if (parent == found[i]) found.push_back(child);
    found.erase(found.begin());
    return found;
  }

  bool reap(int options) {
    reaped_ = ::waitpid(pid_, &status_, options) == pid_;
    return reaped_;
  }

  void kill_all() {
    for (const pid_t pid : descendants()) ::kill(pid, SIGKILL);
    ::kill(pid_, SIGKILL);
    reap(0);
  }

  fs::path log_;
  pid_t pid_ = -1;
  bool reaped_ = false;
  int status_ = 0;
};

/// The result of `start_and_wait`; repeated, at most twice, if the launcher itself crashed.
inline Outcome despite_launcher_crashes(const std::function<Outcome()>& start_and_wait) {
  for (int attempt = 1;; ++attempt) {
    Outcome outcome = start_and_wait();
    if (!outcome.launcher_crashed || attempt == 3) return outcome;
    MESSAGE("the launcher crashed while it ended; the job is run again");
  }
}

}  // namespace halomesh::test
