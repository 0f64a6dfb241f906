// SPDX-License-Identifier: Apache-2.0
// See atomic_file.hpp.
#include "runtime/posix/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

#include "error.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

constexpr std::string_view kSuffix = ".partial";

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, int error_number) {
  throw system_error(action, path, error_number,
                     "check that its directory exists, may be written to and has space left");
}

/// Owns a descriptor.
class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  /// False, with errno set, if the system reports only now that a write failed.
  bool close() {
    const int fd = fd_;
    fd_ = -1;
    return fd < 0 || ::close(fd) == 0;
  }

 private:
  int fd_;
};

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, Writers writers) : path_(std::move(path)) {
  std::string name = "." + path_.filename().string();
  if (writers == Writers::kSeveral)
    name += fmt::format(".{}-{}", ::getpid(),
                        std::chrono::steady_clock::now().time_since_epoch().count());
  temporary_ = path_.parent_path() / name.append(kSuffix);
}

AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void AtomicFile::commit() {
  {
    Descriptor file(temporary_, O_RDWR);
    if (file.get() < 0) fail("open", temporary_, errno);
    if (::fsync(file.get()) != 0 || !file.close()) fail("write", path_, errno);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename to", path_, errno);
  committed_ = true;
  // The new name is on disk only after its directory. File systems that cannot fsync a directory
  // return EINVAL.
  const Descriptor directory(path_.has_parent_path() ? path_.parent_path() : ".",
                             O_RDONLY | O_DIRECTORY);
  if (directory.get() < 0) fail("open the directory of", path_, errno);
  if (::fsync(directory.get()) != 0 && errno != EINVAL)
    fail("write the directory of", path_, errno);
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  AtomicFile target(path, AtomicFile::Writers::kSeveral);
  {
    Descriptor file(target.temporary_path(), O_WRONLY | O_CREAT | O_TRUNC);
    if (file.get() < 0) fail("create", path, errno);
    while (!text.empty()) {
      const ssize_t count = ::write(file.get(), text.data(), text.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("write", path, errno);
      text.remove_prefix(static_cast<std::size_t>(count));
    }
    if (!file.close()) fail("write", path, errno);
  }
  target.commit();
}

void require_writable(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) fail("write", path, EISDIR);
  const AtomicFile target(path, AtomicFile::Writers::kSeveral);
  if (Descriptor(target.temporary_path(), O_WRONLY | O_CREAT | O_EXCL).get() < 0)
    fail("create", path, errno);
}

void remove_partial_files(const std::filesystem::path& directory, std::string_view prefix) {
  std::error_code error;
  std::vector<std::filesystem::path> partial;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("." + std::string(prefix)) && name.ends_with(kSuffix))
      partial.push_back(entry->path());
  }
  for (const auto& path : partial)
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail("remove", path, errno);
}

}  // namespace halomesh
