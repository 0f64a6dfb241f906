// SPDX-License-Identifier: Apache-2.0
// Input files: see input_file.hpp.
#include "runtime/posix/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>

#include "error.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

constexpr int kInputFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

const char* kind_name(mode_t mode) {
  if (S_ISDIR(mode)) return "directory";
  if (S_ISFIFO(mode)) return "FIFO";
  if (S_ISSOCK(mode)) return "socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "device";
  return "special file";
}

void require_regular(const struct stat& status, const std::filesystem::path& path) {
  if (!S_ISREG(status.st_mode))
    throw Error(
        fmt::format("{} is a {}, not a regular file", path.c_str(), kind_name(status.st_mode)),
        "give a regular file");
}

/// Reads until `bytes` are full or the file ends; returns the number of bytes read.
std::size_t read_some(const Descriptor& file, const std::filesystem::path& path,
                      std::span<char> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw read_error("read", path, errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

/// Refuses the small text that Git LFS and git-annex leave in place of a file that they did not
/// get.
void refuse_pointer(const struct stat& status, const std::filesystem::path& path) {
  std::array<char, 512> bytes{};
  if (status.st_size == 0 || status.st_size > std::ssize(bytes)) return;
  const Descriptor file(::open(path.c_str(), kInputFlags));
  if (file.get() < 0) return;  // its reader says why
  const std::string_view text(bytes.data(), read_some(file, path, bytes));
  const bool of_lfs = text.starts_with("version https://git-lfs.github.com/");
  if (of_lfs || text.starts_with("/annex/objects/") ||
      (text.starts_with("../") && text.find("/.git/annex/objects/") != text.npos))
    throw Error(fmt::format("{} only says where {} has the file", path.c_str(),
                            of_lfs ? "Git LFS" : "git-annex"),
                of_lfs ? "get it: git lfs pull" : "get it: git annex get");
}

/// Reads to the end of the file. Throws Error if that takes more than `most` bytes.
std::string read_rest(const Descriptor& file, const std::filesystem::path& path,
                      std::int64_t most) {
  std::string text;
  std::array<char, 65536> piece{};
  while (true) {
    const std::size_t count = read_some(file, path, piece);
    if (count == 0) return text;
    text.append(piece.data(), count);
    if (static_cast<std::int64_t>(text.size()) > most)
      throw Error(fmt::format("{} is larger than {} bytes", path.c_str(), most),
                  "give the right file");
  }
}

}  // namespace

void fail_to_open(const std::filesystem::path& path, int error_number) {
  if (error_number == ENOENT) require_target(path);
  throw read_error("open", path, error_number);
}

void require_target(const std::filesystem::path& path) {
  std::error_code code;
  for (std::filesystem::path at = path; at.has_relative_path(); at = at.parent_path()) {
    if (!std::filesystem::is_symlink(at, code) || std::filesystem::exists(at, code)) continue;
    throw Error(fmt::format("{} is a link to {}, which does not exist", at.c_str(),
                            std::filesystem::read_symlink(at, code).c_str()),
                "get what the link leads to, or link it again");
  }
}

void require_regular_file(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail_to_open(path, errno);
  require_regular(status, path);
  refuse_pointer(status, path);
}

Descriptor open_input_file(const std::filesystem::path& path) {
  // The check comes before open(), which may rewind a tape and cannot open a socket; and again
  // after it, because the name may meanwhile refer to another file.
  require_regular_file(path);
  Descriptor file(::open(path.c_str(), kInputFlags));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) fail_to_open(path, errno);
  require_regular(status, path);
  return file;
}

void read_at(const Descriptor& file, const std::filesystem::path& path, std::int64_t offset,
             std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw read_error("read", path, errno);
    require(got > 0, text("{} ends before its last element", path.c_str()), "copy it again");
    offset += got;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

std::string read_head(const std::filesystem::path& path, std::size_t most) {
  const Descriptor file = open_input_file(path);
  std::string text(most, '\0');
  text.resize(read_some(file, path, text));
  return text;
}

void read_lines(const std::filesystem::path& path, std::int64_t offset,
                const std::function<void(const FileLine&)>& take) {
  const Descriptor file = open_input_file(path);
  if (::lseek(file.get(), offset, SEEK_SET) < 0) throw read_error("read", path, errno);
  std::array<char, 65536> piece{};
  std::string held;
  FileLine line{"", offset, offset};
  bool is_part = offset > 0, is_long = false;
  while (const std::size_t count = read_some(file, path, piece))
    for (std::string_view rest(piece.data(), count); !rest.empty();) {
      const std::size_t length = std::min(rest.find('\n'), rest.size() - 1) + 1;
      is_long = is_long || held.size() + length > kMostLineBytes;
      if (!is_long) held += rest.substr(0, length);
      line.end += static_cast<std::int64_t>(length);
      const bool ends = rest[length - 1] == '\n';
      rest.remove_prefix(length);
      if (!ends) continue;
      line.text = is_long ? "" : std::string_view(held);
      if (!is_part) take(line);
      line.begin = line.end;
      held.clear();
      is_part = is_long = false;
    }
}

std::string read_input_file(const std::filesystem::path& path, std::int64_t most) {
  return read_rest(open_input_file(path), path, most);
}

}  // namespace halomesh
