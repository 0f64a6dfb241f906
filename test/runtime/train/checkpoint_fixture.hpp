// SPDX-License-Identifier: Apache-2.0
// A small network on one rank whose checkpoints tests write, damage and read.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/train/checkpoint.hpp"
#include "test/harness/test_comm.hpp"
#include "test/runtime/train/checkpoint_network.hpp"

namespace halomesh {

/// A network on one part with the means to save and load it; each test rank is a mesh of its own.
class CheckpointFixture {
 public:
  explicit CheckpointFixture(std::int64_t wide = 7, std::int64_t filters = 4)
      : comm(test_world().split(test_world().rank(), 0)),
        mesh(comm, {1, {1, 1, 1}}),
        network({1, 1, 1}, wide, filters),
        parameters(network.geometry(), 0) {
    fill(network.geometry(), parameters, 0);
  }
  void save(const std::filesystem::path& directory, std::int64_t step, int keep = 0) {
    save_checkpoint(mesh, network.geometry(), parameters, sample_state(step), directory, keep);
  }
  TrainingState load(const std::filesystem::path& path, LoadWhat what = LoadWhat::kAll) {
    return load_checkpoint(mesh, network.geometry(), parameters, path, what);
  }
  void clear() {
    std::memset(parameters.values().data(), 0, parameters.values().size_bytes());
    std::memset(parameters.state(0).data(), 0, parameters.state(0).size_bytes());
  }
  /// Elements that are not as fill() made them.
  std::int64_t wrong() {
    std::int64_t count = 0;
    for_each_element(network.geometry(), parameters, 0,
                     [&](int tree, std::size_t i, std::size_t at, std::int64_t global) {
                       const auto memory = tree == 0 ? parameters.values() : parameters.state(0);
                       if (memory[at] != value_at(tree, i, global)) ++count;
                     });
    return count;
  }

  Comm comm;
  ProcessMesh mesh;
  CheckpointNetwork network;
  Parameters parameters;
};

inline std::vector<std::string> names_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

}  // namespace halomesh
