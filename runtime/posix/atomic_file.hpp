// SPDX-License-Identifier: Apache-2.0
// Writes files atomically: under a temporary name, then fsync and rename.
#pragma once

#include <filesystem>
#include <string_view>

namespace halomesh {

/// A file that the caller writes to temporary_path() and commit() renames. Until then an older file
/// of that name is unchanged; without a commit, or if it fails, the temporary file is removed.
/// Symbolic links are followed. A device, a FIFO or a descriptor of this process (/dev/fd/N) cannot
/// be replaced: commit() copies the temporary file into it.
class AtomicFile {
 public:
  enum class Writers {
    kOne,     ///< one at a time: the temporary file is `.NAME.partial`, and the next run replaces
              ///< it
    kSeveral  ///< the temporary name is unique, so that the last commit wins
  };
  /// Creates no file yet. The temporary file will be in the same directory, or in the directory for
  /// temporary files if none is replaced. Throws Error if links form a circle.
  explicit AtomicFile(std::filesystem::path path, Writers writers = Writers::kOne);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& temporary_path() const { return temporary_; }
  /// Call it after closing the temporary file: fsyncs it, renames it over path() and fsyncs the
  /// directory. Throws Error naming the file and the system's reason.
  void commit();

 private:
  std::filesystem::path path_, target_, temporary_;  // as named; after following links
  bool streamed_ = false, committed_ = false;
};

/// Replaces the content of the file by `text`, or writes it to a target that is no regular file;
/// several processes may do so at once. Throws Error naming the file.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Throws the Error that write_file_atomically() would throw; changes nothing.
void require_writable(const std::filesystem::path& path);

/// Removes the temporary files that killed runs have left in `directory` for files whose names
/// start with `prefix`. Must be called by the only writer of such files.
void remove_partial_files(const std::filesystem::path& directory, std::string_view prefix);

}  // namespace halomesh
