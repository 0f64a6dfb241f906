// SPDX-License-Identifier: Apache-2.0
// Archives made by the program, for tests of `convert`.
#pragma once

#include <map>
#include <string>

#include "test/system/scene.hpp"

namespace halomesh::test {

/// The options of a conversion of cubes of 32 voxels.
inline Arguments conversion(const fs::path& from, const fs::path& to) {
  return {{"from", from.string()},
          {"to", to.string()},
          {"input", "32x32x32x4"},
          {"samples-per-file", "3"}};
}

/// The files of a directory with their bytes.
inline std::map<std::string, std::string> files_of(const fs::path& directory) {
  std::map<std::string, std::string> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(directory, none))
    if (entry.is_regular_file()) files[entry.path().filename().string()] = read_file(entry.path());
  return files;
}

}  // namespace halomesh::test
