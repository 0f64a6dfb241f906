// SPDX-License-Identifier: Apache-2.0
// Machines for tests of forecasts, and what reading a file refuses.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "error.hpp"
#include "src/apps/forecast/machine_file.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {

/// The directory jobscripts/ of the source tree.
inline std::filesystem::path source_jobscripts() {
  const char* root = std::getenv("HALOMESH_SOURCE");  // NOLINT(concurrency-mt-unsafe)
  return std::filesystem::path(root != nullptr ? root : ".") / "jobscripts";
}

inline const std::string kSmallMachine =
    "title = Small\n"
    "cpu = one\n"
    "network = torus\n"
    "shape = 4x4\n"
    "nodes = 16 # published: T\n"
    "cores = 4 # published: T\n"
    "ranks-per-node = 1 # published: T\n"
    "memory-gib = 8 # published: T\n"
    "peak-gflops = 100 # derived: T\n"
    "kernel-efficiency = 0.5 # assumed: T\n"
    "triad-gbs = 20 # assumed: T\n"
    "latency-us = 2 # measured: T\n"
    "message-gbs = 5 # measured: T\n";

inline Machine machine_of(const std::string& text, const std::string& name = "mine.ini") {
  const TempDirectory directory;
  std::ofstream(directory / name) << text;
  return read_machine(directory / name);
}

/// "WHAT | HINT" of the refusal, from the file's name on.
inline std::string machine_refusal(const std::string& text, const std::string& name = "mine.ini") {
  try {
    machine_of(text, name);
  } catch (const UsageError& error) {
    const std::string what = error.what();
    const auto from = what.find(name);
    return what.substr(from == std::string::npos ? 0 : from) + " | " + error.hint();
  }
  return "nothing was thrown";
}

}  // namespace halomesh
