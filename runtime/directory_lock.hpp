// A directory that one job at a time writes to.
// Knows nothing of what is written.
#pragma once

#include <filesystem>
#include <string>

namespace halomesh {

/// Holds a directory for as long as it lives; a process that dies lets go as well. The others are
/// kept off by a lock on the file `.lock` in it, which is removed at the end.
class DirectoryLock {
 public:
  /// Throws Error that names the holder when another job holds it, or when no file can be made.
  explicit DirectoryLock(const std::filesystem::path& directory);
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  ~DirectoryLock();

  /// False where the file system has no locks: nothing keeps others off.
  bool effective() const { return effective_; }

 private:
  bool take();

  std::filesystem::path file_;
  int fd_ = -1;
  bool effective_ = true;
};

}  // namespace halomesh
