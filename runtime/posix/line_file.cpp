// SPDX-License-Identifier: Apache-2.0
// Files of whole lines: see line_file.hpp.
#include "runtime/posix/line_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "error.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/input_file.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, int error_number) {
  throw system_error(action, path, error_number,
                     "check that its directory exists, may be written to and has space left");
}

constexpr std::int64_t kFirstBytes = std::int64_t{1} << 20;

/// The whole lines of the end of a file: a killed run may leave a partial last one.
std::string_view whole_lines(const FileTail& tail) {
  const std::string_view text = tail.text;
  const std::size_t begin = tail.offset == 0 ? 0 : std::min(text.find('\n'), text.size() - 1) + 1;
  const std::size_t end = text.rfind('\n') + 1;  // npos + 1 is 0
  return text.substr(begin, end > begin ? end - begin : 0);
}

}  // namespace

LineFile::LineFile(std::filesystem::path path, const Keep& keep) : path_(std::move(path)) {
  std::error_code unknown;
  const bool exists = std::filesystem::exists(path_, unknown) || unknown;
  FileTail tail;
  std::optional<Kept> kept;
  std::string_view lines;
  for (std::int64_t most = kFirstBytes; !kept; most *= 8) {
    if (exists) tail = read_tail(path_, most);
    lines = whole_lines(tail);
    kept = keep(lines, tail.offset == 0);
    if (!kept && tail.offset == 0) throw Error("all lines do not suffice");
  }
  if (kept->damaged) write_file_atomically(damaged_path(), tail.text);
  const bool shortens = lines.starts_with(kept->text);
  if (!shortens) write_file_atomically(path_, kept->text);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("open", path_, errno);
  const auto kept_bytes = (lines.data() - tail.text.data()) + std::ssize(kept->text);
  if (shortens && kept_bytes < std::ssize(tail.text) &&
      ::ftruncate(fd_, tail.offset + kept_bytes) != 0)
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
  const std::string text = line + '\n';
  // Only part of a line fits if a disk or a limit is nearly reached: writing the rest gives the
  // reason.
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path_, errno);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace halomesh
