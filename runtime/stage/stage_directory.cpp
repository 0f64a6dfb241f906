// SPDX-License-Identifier: Apache-2.0
// The directory of a stage: see stage_directory.hpp.
#include "runtime/stage/stage_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "error.hpp"
#include "runtime/posix/directory_lock.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

constexpr std::uint64_t kMemory = 0;  // no device has this number

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, int error_number,
                       const std::string& hint = {}) {
  throw system_error(
      action, path, error_number,
      hint.empty() ? "give --stage-dir a node-local directory that you may write to" : hint);
}

}  // namespace

StageDirectory::StageDirectory(std::filesystem::path path) : path_(std::move(path)) {
  made_ = ::mkdir(path_.c_str(), 0700) == 0;
  if (!made_ && errno != EEXIST) fail("make", path_, errno);
  struct stat status {};
  if (::lstat(path_.c_str(), &status) != 0) fail("open", path_, errno);
  if (S_ISLNK(status.st_mode))
    throw Error(fmt::format("--stage-dir {} is a symbolic link, which staging does not follow",
                            path_.c_str()),
                "give the directory that it points to");
  directory_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (directory_.get() < 0) fail("open", path_, errno);
  if (::faccessat(directory_.get(), ".", W_OK | X_OK, AT_EACCESS) != 0)
    fail("write to", path_, errno);
}

StageDirectory::Space StageDirectory::space() const {
  struct stat status {};
  if (::fstat(directory_.get(), &status) != 0) fail("query the free space of", path_, errno);
  const FreeSpace free = free_space(directory_.get(), path_);
  return {free.is_memory ? kMemory : status.st_dev, free};
}

Descriptor StageDirectory::nameless_file() const {
  constexpr int kMode = O_RDWR | O_CLOEXEC;
  Descriptor file(::openat(directory_.get(), ".", kMode | O_TMPFILE, 0600));
  if (file.get() >= 0) return file;
  // Some file systems support only named files: this name is removed at once.
  const std::string name = fmt::format(".halomesh-{}", ::getpid());
  file = Descriptor(
      ::openat(directory_.get(), name.c_str(), kMode | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  if (file.get() < 0) fail("create a file in", path_, errno);
  if (::unlinkat(directory_.get(), name.c_str(), 0) != 0) fail("remove a file in", path_, errno);
  return file;
}

void StageDirectory::name_file(const Descriptor& file, const std::string& name) const {
  remove_file(name);
  const std::string link = fmt::format("/proc/self/fd/{}", file.get());
  if (::linkat(AT_FDCWD, link.c_str(), directory_.get(), name.c_str(), AT_SYMLINK_FOLLOW) != 0)
    fail("keep a stage in", path_, errno,
         "leave --keep-stage out, or stage to a file system with O_TMPFILE, such as tmpfs or ext4");
}

Descriptor StageDirectory::existing_file(const std::string& name) const {
  return Descriptor(
      ::openat(directory_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

std::vector<std::string> StageDirectory::names() const {
  std::vector<std::string> all;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error))
    all.push_back(entry->path().filename().string());
  if (error) fail("list", path_, error.value());
  return all;
}

void StageDirectory::remove_file(const std::string& name) const {
  if (::unlinkat(directory_.get(), name.c_str(), 0) != 0 && errno != ENOENT)
    fail("remove", path_ / name, errno);
}

StageDirectory::Lock StageDirectory::lock(const std::string& name) const {
  Descriptor file(
      ::openat(directory_.get(), name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) fail("lock", path_ / name, errno);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK)
      fail("lock", path_ / name, errno,
           "leave --keep-stage out, or stage to a node-local file system");
    std::array<char, 400> text{};
    const bool named = ::pread(file.get(), text.data(), text.size() - 1, 0) > 0;
    return {{}, named ? text.data() : "another process"};
  }
  const std::string mine = this_process();
  if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), mine.data(), mine.size(), 0) < 0)
    fail("lock", path_ / name, errno);
  return {std::move(file), {}};
}

bool StageDirectory::belongs_to_user() const {
  struct stat status {};
  return ::fstat(directory_.get(), &status) == 0 && status.st_uid == ::geteuid();
}

void StageDirectory::remove_if_empty() const { ::rmdir(path_.c_str()); }

}  // namespace halomesh
