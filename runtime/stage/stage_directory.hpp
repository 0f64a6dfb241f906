// SPDX-License-Identifier: Apache-2.0
// The directory of a stage: opened safely, its space, and files in it that leave nothing behind.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "runtime/posix/descriptor.hpp"

namespace halomesh {

/// A directory that this process may write to. It is made (mode 0700) when it is missing, and never
/// reached through a symbolic link in its last place: others may write where it lies.
class StageDirectory {
 public:
  /// Throws Error when it is a symbolic link, no directory, of another user or not writable.
  explicit StageDirectory(std::filesystem::path path);
  StageDirectory(StageDirectory&& other) noexcept
      : path_(std::move(other.path_)),
        made_(std::exchange(other.made_, false)),
        directory_(std::move(other.directory_)) {}
  StageDirectory& operator=(StageDirectory&&) = delete;
  StageDirectory(const StageDirectory&) = delete;
  StageDirectory& operator=(const StageDirectory&) = delete;
  /// Removes the directory if this object made it and it is empty.
  ~StageDirectory() { remove_if_made(); }

  const std::filesystem::path& path() const { return path_; }
  /// What the file system has left for this user, and where: ranks of a node share it when
  /// `device` is the same. A RAM disk has no more than the node's memory has.
  struct Space {
    std::uint64_t device = 0;
    std::int64_t available = 0;  ///< bytes
  };
  Space space() const;

  /// An empty file without a name: whatever ends this process, its space is free again.
  Descriptor nameless_file() const;
  /// Gives a nameless file its name, if the file system can; an older file of that name goes.
  void name_file(const Descriptor& file, const std::string& name) const;
  /// Opens an existing file, never a symbolic link; -1 when there is none or it may not be read.
  Descriptor existing_file(const std::string& name) const;
  /// Of all that is in it.
  std::vector<std::string> names() const;
  void remove_file(const std::string& name) const;

  /// Keeps other processes from a name in this directory until the descriptor is closed, at the
  /// latest when the process ends, however it does: by flock(), which node-local file systems have.
  /// Without the lock, `holder` says who has it.
  struct Lock {
    Descriptor file;
    std::string holder;
  };
  Lock lock(const std::string& name) const;

  bool belongs_to_user() const;
  /// Removes the directory if it is empty; otherwise somebody uses it. Files that are open, and
  /// this object, stay as they are.
  void remove_if_empty() const;
  /// The same, if it was this object that made it.
  void remove_if_made() const {
    if (made_) remove_if_empty();
  }

 private:
  std::filesystem::path path_;
  bool made_ = false;
  Descriptor directory_;
};

}  // namespace halomesh
