// SPDX-License-Identifier: Apache-2.0
// A text file to which whole lines are appended, readable even if the run is killed.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace halomesh {

/// Says which lines of a file stay when lines are to be appended to it.
class LineFilter {
 public:
  enum class Line { kKept, kRemoved, kDamaged };
  enum class End { kDone, kNeedsMore, kNoneKept };
  LineFilter() = default;
  LineFilter(const LineFilter&) = delete;
  LineFilter& operator=(const LineFilter&) = delete;
  virtual ~LineFilter() = default;

  /// Called before the first of the last lines of a file, which are all of them if `are_all`.
  virtual void begin(bool are_all) = 0;
  /// One of these lines with its end of line, in order; "" if it is too long (kMostLineBytes).
  virtual Line take(std::string_view line) = 0;
  /// Called after the last line. kNeedsMore: more lines are needed before that can be said.
  virtual End end() = 0;
};

/// Writes each line by one write() that is complete when append() returns: a killed run loses no
/// line and leaves at most a partial last line. One process writes. Move-only.
class LineFile {
 public:
  /// An object without a file, which writes nothing.
  LineFile() = default;
  /// Opens the file, or creates it, to append lines to those that `filter` keeps and to all lines
  /// before. Shows it the last lines, a MiB at first, and more of them while it asks for more, but
  /// no partial last line. The rest is removed atomically; a copy of a damaged file is kept at
  /// damaged_path(). Needs no more memory for a long file than for a short one. Throws Error naming
  /// the file, and rethrows errors of `filter` before anything is changed.
  LineFile(std::filesystem::path path, LineFilter& filter);
  LineFile(LineFile&& other) noexcept;
  LineFile& operator=(LineFile&& other) noexcept;
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  ~LineFile();

  bool is_open() const { return fd_ >= 0; }
  const std::filesystem::path& path() const { return path_; }
  /// The file's name with ".damaged" appended.
  std::filesystem::path damaged_path() const { return path_.string() + ".damaged"; }
  /// Appends `line` and an end of line; does nothing if no file is open. Throws Error if it cannot
  /// be written completely, e.g. because the disk is full.
  void append(const std::string& line);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace halomesh
