// SPDX-License-Identifier: Apache-2.0
// Files of whole lines: see line_file.hpp.
#include "runtime/posix/line_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "error.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/descriptor.hpp"
#include "runtime/posix/input_file.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, int error_number) {
  throw system_error(action, path, error_number,
                     "check that its directory exists, may be written to and has space left");
}

constexpr std::int64_t kFirstBytes = std::int64_t{1} << 20;

void write_line(int file, std::string_view line, const std::filesystem::path& path) {
  // Only part of a line fits if a disk or a limit is nearly reached: writing the rest gives the
  // reason.
  while (!line.empty()) {
    const ssize_t written = ::write(file, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path, errno);
    line.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Copies a file of any size, as it is.
void copy_bytes(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::copy_file(from, to, error);
  if (error) fail("copy", from, error.value());
}

/// The lines of a file that stay: its first bytes, or, where a line before others goes, a new file.
class KeptLines {
 public:
  KeptLines(std::filesystem::path path, std::int64_t offset)
      : path_(std::move(path)), bytes_(offset) {}

  void take(const FileLine& line, LineFilter::Line verdict) {
    if (std::exchange(begins_, false)) bytes_ = line.begin;
    is_damaged_ = is_damaged_ || verdict == LineFilter::Line::kDamaged;
    if (verdict != LineFilter::Line::kKept || line.text.empty()) return;
    if (!file_ && line.begin > bytes_) start_file();
    if (file_)
      write_line(descriptor_.get(), line.text, path_);
    else
      bytes_ = line.end;
  }
  void remove_all() {
    is_damaged_ = is_damaged_ || file_ || bytes_ > 0;
    file_.reset();
    bytes_ = 0;
  }
  bool is_damaged() const { return is_damaged_; }
  /// Puts what stays in the place of the file, unless it is the file's beginning.
  void commit() {
    if (!file_) return;
    if (!descriptor_.close()) fail("write", path_, errno);
    file_->commit();
  }
  /// How many bytes of the file stay; empty after a new one was committed.
  std::optional<std::int64_t> bytes() const { return file_ ? std::nullopt : std::optional(bytes_); }

 private:
  void start_file() {
    file_.emplace(path_, AtomicFile::Writers::kSeveral);
    const std::filesystem::path& copy = file_->temporary_path();
    copy_bytes(path_, copy);
    descriptor_ = Descriptor(::open(copy.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (descriptor_.get() < 0 || ::ftruncate(descriptor_.get(), bytes_) != 0)
      fail("write", copy, errno);
  }

  std::filesystem::path path_;
  std::int64_t bytes_;
  std::optional<AtomicFile> file_;
  Descriptor descriptor_;
  bool begins_ = true, is_damaged_ = false;
};

}  // namespace

LineFile::LineFile(std::filesystem::path path, LineFilter& filter) : path_(std::move(path)) {
  std::error_code unknown;
  std::int64_t bytes = 0;
  if (std::filesystem::exists(path_, unknown) || unknown) {
    require_regular_file(path_);
    bytes = static_cast<std::int64_t>(std::filesystem::file_size(path_));
  }
  std::optional<KeptLines> kept;
  auto end = LineFilter::End::kNeedsMore;
  for (std::int64_t most = kFirstBytes; end == LineFilter::End::kNeedsMore; most *= 8) {
    const std::int64_t offset = std::max<std::int64_t>(bytes - most, 0);
    kept.emplace(path_, offset);
    filter.begin(offset == 0);
    if (bytes > 0)
      read_lines(path_, offset,
                 [&](const FileLine& line) { kept->take(line, filter.take(line.text)); });
    end = filter.end();
    if (end == LineFilter::End::kNeedsMore && offset == 0) throw Error("all lines do not suffice");
  }
  if (end == LineFilter::End::kNoneKept) kept->remove_all();
  if (kept->is_damaged()) {
    AtomicFile copy(damaged_path(), AtomicFile::Writers::kSeveral);
    copy_bytes(path_, copy.temporary_path());
    copy.commit();
  }
  kept->commit();
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("open", path_, errno);
  if (kept->bytes() < bytes && kept->bytes() && ::ftruncate(fd_, *kept->bytes()) != 0)
    fail("shorten", path_, errno);
}

LineFile::LineFile(LineFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

LineFile& LineFile::operator=(LineFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

LineFile::~LineFile() {
  if (fd_ >= 0) ::close(fd_);
}

void LineFile::append(const std::string& line) {
  if (fd_ < 0) return;
  write_line(fd_, line + '\n', path_);
}

}  // namespace halomesh
