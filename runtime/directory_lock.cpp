// Locks by flock(2): see directory_lock.hpp.
// Knows nothing of what is written.
#include "runtime/directory_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "error.hpp"

namespace halomesh {
namespace {

std::string this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return cat("process ", ::getpid(), " on ", host.data());
}

}  // namespace

DirectoryLock::DirectoryLock(const std::filesystem::path& directory) : file_(directory / ".lock") {
  while (!take())
    if (fd_ >= 0) ::close(fd_);
  const std::string text = this_process();
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, text.data(), text.size(), 0) < 0) return;
}

/// False when the file that was locked is no longer the one of that name, as its holder ended.
bool DirectoryLock::take() {
  fd_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0)
    throw Error(cat("cannot create ", file_.string(), ": ", std::strerror(errno)),
                "check that the directory exists and may be written to");
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      effective_ = false;
      return true;
    }
    std::array<char, 300> holder{};
    const ssize_t length = ::pread(fd_, holder.data(), holder.size() - 1, 0);
    ::close(fd_);
    fd_ = -1;
    throw Error(cat(file_.parent_path().string(), " is being written to by ",
                    length > 0 ? holder.data() : "another job"),
                "wait for its end, or use another directory");
  }
  struct stat locked {
  }, named{};
  return ::fstat(fd_, &locked) == 0 && ::stat(file_.c_str(), &named) == 0 &&
         locked.st_ino == named.st_ino && locked.st_dev == named.st_dev;
}

DirectoryLock::~DirectoryLock() {
  if (effective_) ::unlink(file_.c_str());  // while it is locked: nobody else's yet
  ::close(fd_);
}

}  // namespace halomesh
