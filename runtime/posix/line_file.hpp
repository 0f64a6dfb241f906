// SPDX-License-Identifier: Apache-2.0
// A text file to which whole lines are appended, readable even if the run is killed.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace halomesh {

/// Writes each line by one write() that is complete when append() returns: a killed run loses no
/// line and leaves at most a partial last line. One process writes. Move-only.
class LineFile {
 public:
  /// An object without a file, which writes nothing.
  LineFile() = default;
  /// The text of a file that is kept.
  struct Kept {
    std::string text;
    bool damaged = false;  ///< the text, that of all lines, contained invalid ones
  };
  /// Returns what is to be kept of the last lines of a file, which are all of them if `are_all`;
  /// empty to get more lines before that can be said. A partial last line is not among them.
  using Keep = std::function<std::optional<Kept>(std::string_view lines, bool are_all)>;
  /// Opens the file, or creates it, to append lines to what `keep` returns and to all lines before.
  /// Calls `keep` with the last lines, a MiB at first, and with more of them while it asks for
  /// more. The rest is removed atomically; a copy of a damaged file is kept at damaged_path().
  /// Throws Error naming the file, and rethrows errors of `keep` before anything is changed.
  LineFile(std::filesystem::path path, const Keep& keep);
  LineFile(LineFile&& other) noexcept;
  LineFile& operator=(LineFile&& other) noexcept;
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  ~LineFile();

  bool is_open() const { return fd_ >= 0; }
  const std::filesystem::path& path() const { return path_; }
  /// The file's name with ".damaged" appended.
  std::filesystem::path damaged_path() const { return path_.string() + ".damaged"; }
  /// Appends `line` and '
  /// '; does nothing if no file is open. Throws Error if it cannot be written completely, e.g.
  /// because the disk is full.
  void append(const std::string& line);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace halomesh
