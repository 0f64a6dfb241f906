// SPDX-License-Identifier: Apache-2.0
// Makes a job script with the program and runs shell commands around it.
#pragma once

#include <doctest/doctest.h>

#include "test/system/scene.hpp"

namespace halomesh::test {

inline fs::path source_root() { return fs::absolute(environment("HALOMESH_SOURCE", ".")); }

/// `text` as one shell word.
inline std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

/// Runs `command` by bash in `directory`, within `limit_s`. Its exit code; 124 when it took longer.
inline int shell(const std::string& command, const fs::path& directory, int limit_s = 120) {
  const std::string line = "cd " + quoted(directory.string()) + " && timeout -k 5 " +
                           std::to_string(limit_s) + " bash -c " + quoted(command);
  const int status = std::system(line.c_str());  // NOLINT(concurrency-mt-unsafe)
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// A directory with one job in it, of the scene's network and data; the script's text is what
/// `jobscript` prints for these options, on top of the training's.
struct ScriptJob {
  Scene scene;
  fs::path directory = workshop().fresh("job");

  ScriptJob() {
    fs::create_directories(directory);
    scene.options["epochs"] = "0";
    scene.options["evaluate-every"] = "0";
    scene.options["checkpoint-every"] = "25";
  }

  fs::path make(const std::string& name, const Arguments& options) const {
    const fs::path script = directory / name;
    std::string command = quoted(environment("HALOMESH", "build/halomesh")) + " jobscript" +
                          " --profiles " + quoted((source_root() / "jobscripts").string());
    Arguments all = scene.arguments();
    all.insert(options.begin(), options.end());
    all.insert({"program", environment("HALOMESH", "build/halomesh")});
    for (const auto& [option, value] : all) command += " --" + option + ' ' + quoted(value);
    CAPTURE(command);
    REQUIRE(shell(command + " > " + quoted(script.string()), fs::current_path()) == 0);
    return script;
  }

  /// The step of the newest checkpoint; 0 when there is none.
  int last_step() const {
    const auto files = checkpoints(scene.out);
    if (files.empty()) return 0;
    const std::string name = files.back().stem().string();
    return std::stoi(name.substr(name.find('-') + 1));
  }
};

}  // namespace halomesh::test
