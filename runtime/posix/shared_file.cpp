// SPDX-License-Identifier: Apache-2.0
// Files with several writers: see shared_file.hpp.
#include "runtime/posix/shared_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "system_error.hpp"

namespace halomesh {
namespace {

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, int error_number) {
  throw system_error(action, path, error_number,
                     "all nodes must see its directory, and it must have space left");
}

}  // namespace

SharedFile::SharedFile(std::filesystem::path path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CLOEXEC)) {
  if (fd_ < 0) fail("open", path_, errno);
}

SharedFile::~SharedFile() {
  if (fd_ >= 0) ::close(fd_);
}

void SharedFile::write(std::int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("write", path_, written < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
}

void SharedFile::close() {
  if (::fsync(fd_) != 0) fail("write", path_, errno);
  if (::close(std::exchange(fd_, -1)) != 0) fail("write", path_, errno);
}

}  // namespace halomesh
