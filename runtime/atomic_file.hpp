// Files that appear whole or not at all: written under a temporary name, fsynced, renamed.
// Knows nothing of what the files hold, of formats or of ranks.
#pragma once

#include <filesystem>
#include <string_view>

namespace halomesh {

/// A file on its way: written by whatever means under temporary_path() and given its name by
/// commit(). Until then an older file of that name stays as it is; when this object goes without
/// a commit, or the commit fails, the temporary is removed. Two objects must not share a path.
class AtomicFile {
 public:
  /// Touches nothing yet. The temporary is `.NAME.partial` in the same directory.
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& temporary_path() const { return temporary_; }
  /// Call once whoever wrote the temporary has closed it: fsyncs it, renames it over path() and
  /// fsyncs the directory. Throws Error naming the file and what the system said.
  void commit();

 private:
  std::filesystem::path path_, temporary_;
  bool committed_ = false;
};

/// Makes `text` the whole content of the file. Throws Error naming the file.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Removes the temporaries that killed runs left of files in `directory` whose names start with
/// `prefix`. To be called by the only writer of such files.
void remove_partial_files(const std::filesystem::path& directory, std::string_view prefix);

}  // namespace halomesh
