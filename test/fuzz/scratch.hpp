// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share: a directory of its own for files, and attempts that may end in an
// Error. Must not depend on formats.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "error.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh::fuzz {

using Bytes = std::span<const std::uint8_t>;

inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Runs `work`. That it throws Error is fine: a bad file was told. Anything else is what is looked
/// for.
template <class Work>
void attempt(const Work& work) {
  try {
    work();
  } catch (const Error&) {  // as it should be
  }
}

/// A directory in memory that goes with the process, and an MPI session of one rank.
class Scratch {
 public:
  Scratch() { std::filesystem::create_directories(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  const Comm& world() const { return session_.world(); }
  /// Puts a file of this name, and its directory, there; returns its path.
  std::filesystem::path put(const std::string& name, Bytes bytes) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << as_text(bytes);
    return file;
  }

 private:
  std::filesystem::path path_ =
      std::filesystem::path("/dev/shm") / ("halomesh-fuzz-" + std::to_string(::getpid()));
  MpiSession session_{nullptr, nullptr};
};

inline Scratch& scratch() {
  static Scratch directory;
  return directory;
}

}  // namespace halomesh::fuzz
