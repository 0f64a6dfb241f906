// SPDX-License-Identifier: Apache-2.0
// Files of whole lines: see line_file.hpp.
#include "runtime/posix/line_file.hpp"

#include <fcntl.h>
#include <unistd.h>

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

}  // namespace

LineFile::LineFile(std::filesystem::path path, const std::function<Kept(std::string_view)>& keep)
    : path_(std::move(path)) {
  std::error_code unknown;
  const std::string before =
      std::filesystem::exists(path_, unknown) || unknown ? read_input_file(path_) : "";
  // A killed run may leave a partial last line; npos + 1 is 0.
  const Kept kept = keep(std::string_view(before).substr(0, before.rfind('\n') + 1));
  if (kept.damaged) write_file_atomically(damaged_path(), before);
  if (kept.text != before) write_file_atomically(path_, kept.text);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("open", path_, errno);
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
