// SPDX-License-Identifier: Apache-2.0
// The directory of a stage: opens it safely, reports its free space, and creates files in it that
// leave no trace.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "runtime/posix/descriptor.hpp"
#include "runtime/posix/free_space.hpp"

namespace halomesh {

/// A directory that this process may write to. It is created (mode 0700) if it is missing. Its last
/// path component must not be a symbolic link, because others may be able to write to its parent.
class StageDirectory {
 public:
  /// Throws Error if it is a symbolic link, is not a directory, belongs to another user or is not
  /// writable.
  explicit StageDirectory(std::filesystem::path path);
  StageDirectory(StageDirectory&& other) noexcept
      : path_(std::move(other.path_)),
        made_(std::exchange(other.made_, false)),
        directory_(std::move(other.directory_)) {}
  StageDirectory& operator=(StageDirectory&&) = delete;
  StageDirectory(const StageDirectory&) = delete;
  StageDirectory& operator=(const StageDirectory&) = delete;
  /// Removes the directory if this object created it and it is empty.
  ~StageDirectory() { remove_if_made(); }

  const std::filesystem::path& path() const { return path_; }
  /// The free space of the file system for this user. Ranks of a node share it if their `device` is
  /// equal, as it is for all RAM disks with more space than free memory.
  struct Space {
    std::uint64_t device = 0;
    FreeSpace free;
  };
  Space space() const;

  /// Creates an empty file without a name: its space is freed however the process ends.
  Descriptor nameless_file() const;
  /// Names a nameless file, if the file system supports it, and replaces an older file of that
  /// name.
  void name_file(const Descriptor& file, const std::string& name) const;
  /// Opens an existing file, never a symbolic link; -1 if it is missing or not readable.
  Descriptor existing_file(const std::string& name) const;
  /// The names of all entries.
  std::vector<std::string> names() const;
  void remove_file(const std::string& name) const;

  /// Locks a name in this directory against other processes until the descriptor is closed, at the
  /// latest when the process ends. Uses flock(), which node-local file systems support. If the lock
  /// is taken, `holder` names its process.
  struct Lock {
    Descriptor file;
    std::string holder;
  };
  Lock lock(const std::string& name) const;

  bool belongs_to_user() const;
  /// Removes the directory if it is empty; if not, others still use it. Open files and this object
  /// remain valid.
  void remove_if_empty() const;
  /// Removes the directory likewise, if this object created it.
  void remove_if_made() const {
    if (made_) remove_if_empty();
  }

 private:
  std::filesystem::path path_;
  bool made_ = false;
  Descriptor directory_;
};

}  // namespace halomesh
