// A text file that grows by whole lines: what a killed run has written of it stays readable.
// Knows nothing of what the lines hold, or of ranks: one process alone writes.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace halomesh {

/// Each line is one write(), complete before the function returns: a killed run loses none, and
/// leaves at most its last line torn. Move-only.
class LineFile {
 public:
  /// Writes nothing, anywhere.
  LineFile() = default;
  /// Opens the file, made if need be, to add lines to what `keep` wants of it: it is given the
  /// text so far ("" without a file), without a torn last line. Removes the rest, all at once or
  /// not at all. Throws Error naming the file, and what `keep` throws before anything is changed.
  LineFile(std::filesystem::path path, const std::function<std::string(std::string_view)>& keep);
  LineFile(LineFile&& other) noexcept;
  LineFile& operator=(LineFile&& other) noexcept;
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  ~LineFile();

  bool is_open() const { return fd_ >= 0; }
  const std::filesystem::path& path() const { return path_; }
  /// Adds `line` and its end; nothing where no file is open. Throws Error when it cannot be
  /// written whole, e.g. for want of space.
  void append(const std::string& line);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

/// The whole text of a file, "" when there is none. Throws Error naming it.
std::string read_text(const std::filesystem::path& path);

}  // namespace halomesh
