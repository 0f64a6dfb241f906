// SPDX-License-Identifier: Apache-2.0
// Files that tests create and damage: a temporary directory, whole-file access, messages.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "error.hpp"
#include "runtime/data/tfrecord.hpp"

namespace halomesh {

/// A directory of this process's own, removed at the end of the test.
class TempDirectory {
 public:
  TempDirectory() {
    // The directory is in memory if possible: tests rewrite thousands of small files, which is slow
    // on disks.
    const std::filesystem::path memory = "/dev/shm";
    const bool fast = ::access(memory.c_str(), W_OK) == 0;
    std::string name =
        ((fast ? memory : std::filesystem::temp_directory_path()) / "halomesh-test-XXXXXX")
            .string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  std::int64_t entries() const {
    return std::distance(std::filesystem::directory_iterator(path_),
                         std::filesystem::directory_iterator());
  }

 private:
  std::filesystem::path path_;
};

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void put_contents(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<long>(bytes.size()));
}

inline void write_records(const std::filesystem::path& path,
                          const std::vector<std::string>& payloads, Compression compression) {
  TfRecordWriter writer(path, compression);
  for (const std::string& payload : payloads) writer.write(payload);
  writer.commit();
}

/// Returns what() and hint() of the Error that `work` throws; "" if it throws none.
inline std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    CHECK_FALSE(error.hint().empty());
    return fmt::format("{} | {}", error.what(), error.hint());
  }
  return {};
}

inline bool contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

}  // namespace halomesh
