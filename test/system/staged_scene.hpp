// SPDX-License-Identifier: Apache-2.0
// Runs that stage their data: their counters, and their files while they are staging.
#pragma once

#include <string>

#include "test/system/scene.hpp"

namespace halomesh::test {

constexpr int kStopped = 75;

/// A scene that stages to a directory that does not exist yet.
struct StagedScene : Scene {
  fs::path stage = workshop().fresh("stage");
  explicit StagedScene(bool copied = false) : Scene(copied) {
    options["stage-dir"] = stage.string();
    options["augment"] = "on";
  }
  void check_nothing_left() const { CHECK(!fs::exists(stage)); }
};

/// The value of `key` in the last stage event.
inline double stage_value(const fs::path& out, const std::string& key) {
  const std::string text = read_file(out / "metrics.jsonl");
  const std::size_t event = text.rfind("{\"event\":\"stage\"");
  REQUIRE(event != std::string::npos);
  const std::size_t at = text.find('"' + key + "\":", event);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + key.size() + 3));
}

inline void succeed(const Scene& scene, double limit_s = 60) {
  const Outcome outcome = scene.train(limit_s);
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
}

/// Many samples: the same files under many names.
inline void multiply_samples(const Scene& scene, int times) {
  for (const fs::path& file : scene.files("train"))
    for (int i = 0; i < times; ++i)
      fs::create_hard_link(file, file.string() + '-' + std::to_string(i) + ".tfrecord");
}

/// Whether a rank has started to write to a file of the stage, named or not.
inline bool stages(const Job& job, const fs::path& stage) {
  constexpr std::uintmax_t kMostOfALock = 4096;
  for (const auto& [rank, pid] : job.ranks()) {
    std::error_code code;
    for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd", code)) {
      if (!fs::read_symlink(entry.path(), code).string().starts_with(stage.string() + "/"))
        continue;
      const std::uintmax_t size = fs::file_size(entry.path(), code);
      if (!code && size > kMostOfALock) return true;
    }
  }
  return false;
}

}  // namespace halomesh::test
