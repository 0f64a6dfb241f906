// A text file that grows by whole lines: see line_file.hpp.
// Owns the file's descriptor; knows nothing of what the lines hold.
#include "runtime/line_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "error.hpp"
#include "runtime/atomic_file.hpp"

namespace halomesh {
namespace {

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, int error_number) {
  throw Error(cat("cannot ", action, " ", path.string(), ": ", std::strerror(error_number)),
              "check that its directory exists, may be written to and has space left");
}

}  // namespace

std::string read_text(const std::filesystem::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open() && errno == ENOENT) return {};
  if (!file.is_open()) fail("open", path, errno);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) fail("read", path, errno);
  return text;
}

LineFile::LineFile(std::filesystem::path path,
                   const std::function<std::string(std::string_view)>& keep)
    : path_(std::move(path)) {
  const std::string before = read_text(path_);
  // A line without its end is what a killed run was about to write; npos + 1 is 0.
  const std::string kept = keep(std::string_view(before).substr(0, before.rfind('\n') + 1));
  if (kept != before) write_file_atomically(path_, kept);
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
  ssize_t written = -1;
  do written = ::write(fd_, text.data(), text.size());
  while (written < 0 && errno == EINTR);
  if (written < 0) fail("write", path_, errno);
  // Some of the line went in: the disk is full now.
  if (written != static_cast<ssize_t>(text.size())) fail("write", path_, ENOSPC);
}

}  // namespace halomesh
