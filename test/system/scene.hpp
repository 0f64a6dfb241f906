// SPDX-License-Identifier: Apache-2.0
// A tiny data set made once, copies of it that a test may damage, and access to the files that a
// run leaves.
// See job.hpp for how the program is started.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

#include "test/system/job.hpp"

namespace halomesh::test {

/// Nothing takes that long unless it hangs, even on a busy machine.
constexpr double kLimitSeconds = 60;

/// This process's directory of scenes, removed when it ends.
class Workshop {
 public:
  Workshop() { fs::create_directories(root_); }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;
  ~Workshop() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  const fs::path& root() const { return root_; }
  fs::path fresh(const std::string& name) { return root_ / (name + '-' + std::to_string(++made_)); }

 private:
  fs::path root_ = fs::temp_directory_path() / ("halomesh-system-" + std::to_string(::getpid()));
  int made_ = 0;
};

inline Workshop& workshop() {
  static Workshop shop;
  return shop;
}

/// Runs a command to its end; repeated if the launcher itself crashed.
inline Outcome run(int ranks, const std::string& command, const Arguments& arguments,
                   double limit_s = kLimitSeconds) {
  return despite_launcher_crashes(
      [&] { return Job(ranks, command, arguments, workshop().fresh("log")).wait(limit_s); });
}

/// A data set of cubes with 4 channels, made once for each set of numbers.
inline fs::path data_set(int extent, int train, int validation) {
  const std::string name = "data-" + std::to_string(extent) + '-' + std::to_string(train) + '-' +
                           std::to_string(validation);
  const fs::path directory = workshop().root() / name;
  if (fs::exists(directory / "dataset.json")) return directory;
  const Outcome outcome = run(0, "synth",
                              {{"extent", std::to_string(extent)},
                               {"train", std::to_string(train)},
                               {"validation", std::to_string(validation)},
                               {"out", directory.string()}});
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  return directory;
}

/// One run's directories and options; a test changes any of them before it starts the run.
struct Scene {
  fs::path data, out;
  Arguments options;
  int ranks = 4;

  /// `copied`: a data set of its own, to be damaged.
  explicit Scene(bool copied = false) : data(data_set(32, 8, 4)), out(workshop().fresh("out")) {
    if (copied) {
      const fs::path mine = workshop().fresh("data");
      fs::copy(data, mine, fs::copy_options::recursive);
      data = mine;
    }
    options = {{"parts", "2x1x1"},   {"batch", "4"},   {"input", "32x32x32x4"},
               {"conv-layers", "3"}, {"filters", "4"}, {"fc", "8"},
               {"epochs", "2"},      {"seed", "7"},    {"dropout", "0.25"}};
  }

  /// The sample files of a split, in the program's order.
  std::vector<fs::path> files(const std::string& split) const {
    std::set<fs::path> sorted;
    for (const auto& entry : fs::directory_iterator(data / split)) sorted.insert(entry.path());
    return {sorted.begin(), sorted.end()};
  }

  Arguments arguments() const {
    Arguments all = options;
    all.insert({{"data", data.string()}, {"out", out.string()}});
    return all;
  }

  Outcome train(double limit_s = kLimitSeconds) const {
    return run(ranks, "train", arguments(), limit_s);
  }
};

/// The checkpoints under a run's directory, oldest first.
inline std::vector<fs::path> checkpoints(const fs::path& out) {
  std::set<fs::path> sorted;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(out / "checkpoints", none))
    if (entry.path().extension() == ".h5") sorted.insert(entry.path());
  return {sorted.begin(), sorted.end()};
}

/// Temporary files that a run has left under its directory.
inline std::vector<std::string> partial_files(const fs::path& out) {
  std::vector<std::string> found;
  std::error_code none;
  for (const auto& entry : fs::recursive_directory_iterator(out, none)) {
    const std::string name = entry.path().filename().string();
    if (name.front() == '.' || name.find("partial") != std::string::npos) found.push_back(name);
  }
  return found;
}

/// Asserts that a job failed in time, with this exit code and one message that names all of `named`
/// and ends in a hint.
inline void check_failure(const Outcome& outcome, int exit_code,
                          const std::vector<std::string>& named) {
  CAPTURE(outcome.text);
  CHECK(outcome.in_time);
  CHECK(outcome.exit_code == exit_code);
  CHECK(lines_starting(outcome.text, "halomesh: error") == 1);
  CHECK(lines_starting(outcome.text, "  hint: ") == 1);
  const std::size_t begin = outcome.text.find("halomesh: error");
  const std::size_t hint = outcome.text.find("  hint: ", std::min(begin, outcome.text.size()));
  REQUIRE(hint != std::string::npos);
  const std::string message = outcome.text.substr(begin, outcome.text.find('\n', hint) - begin);
  REQUIRE(!named.empty());
  for (const std::string& name : named) {
    CAPTURE(name);
    CHECK(message.find(name) != std::string::npos);
  }
}

}  // namespace halomesh::test
