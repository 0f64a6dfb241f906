// SPDX-License-Identifier: Apache-2.0
// Locks made of a file, a kernel lock and a heartbeat: see directory_lock.hpp.
#include "runtime/posix/directory_lock.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <tuple>
#include <utility>

#include "error.hpp"
#include "runtime/posix/input_file.hpp"
#include "runtime/posix/memory_needs.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookEvery{50};

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, int error,
                       const std::string& option) {
  throw system_error(action, path, error,
                     fmt::format("check that {} may be written to, or give another one", option));
}

struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

/// Changes with each boot: processes with equal values share the kernel and all of its locks.
std::string this_boot() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id.empty() ? "unknown" : id;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

/// A unique text, because a process number is not reused within a clock tick.
std::string unique_id() {
  static std::atomic<int> count = 0;
  return fmt::format("{}-{}-{}", ::getpid(),
                     std::chrono::system_clock::now().time_since_epoch().count(), ++count);
}

/// A record's second line, by which runs identify each other: where, who, and whether a kernel lock
/// signals the end.
std::string trust_of(bool locked) {
  return fmt::format("{}{}", locked ? "locked in " : "unlocked in ", this_boot());
}

std::string first_line(const std::string& record) {
  return record.empty() ? "another process" : record.substr(0, record.find('\n'));
}

}  // namespace

std::string this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::string text = fmt::format("process {} on host {}", ::getpid(), host.data());
  for (const char* variable : {"SLURM_JOB_ID", "PJM_JOBID", "PBS_JOBID", "LSB_JOBID"})
    if (const char* job = std::getenv(variable);
        job != nullptr && *job != '\0')  // NOLINT(concurrency-mt-unsafe)
      return fmt::format("{} (job {})", text, job);
  return text;
}

/// A contender's observation of the file.
struct DirectoryLock::Sight {
  bool there = false;
  std::string record;  // "": unreadable, or not yet written by its creator
  std::tuple<ino_t, time_t, long> age;
  enum { kFree, kHeld, kUnknown } lock = kUnknown;  // according to the kernel

  bool same_holder(const Sight& other) const {
    return there && other.there && record == other.record &&
           std::get<0>(age) == std::get<0>(other.age);
  }
};

DirectoryLock::Sight DirectoryLock::look(const std::filesystem::path& file) const {
  Sight sight;
  const Descriptor seen(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (seen.get() < 0) {
    if (errno == ENOENT) return sight;
    // The file of another user cannot be opened, but its time is readable.
    if (errno != EACCES || ::lstat(file.c_str(), &status) != 0)
      fail("open", file, errno, terms_.option);
  } else if (::fstat(seen.get(), &status) != 0) {
    fail("open", file, errno, terms_.option);
  }
  require(S_ISREG(status.st_mode), text("{} is not a regular file", file.c_str()),
          "rename it or choose another directory: halomesh keeps its lock under that name");
  sight.there = true;
  sight.age = {status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  if (seen.get() < 0) return sight;
  std::array<char, 2048> text{};
  if (const ssize_t length = ::pread(seen.get(), text.data(), text.size(), 0); length > 0)
    sight.record.assign(text.data(), static_cast<std::size_t>(length));
  if (!sight.record.ends_with('\n')) sight.record.clear();
  struct flock lock = whole_file();
  if (terms_.kernel_locks && ::fcntl(seen.get(), F_OFD_GETLK, &lock) == 0)
    sight.lock = lock.l_type == F_UNLCK ? Sight::kFree : Sight::kHeld;
  return sight;
}

/// The right to remove a lock file, held during the removal.
class DirectoryLock::Guard {
 public:
  explicit Guard(const DirectoryLock& lock) : file_(lock.file_.string() + ".guard") {
    Sight before;
    for (Clock::time_point since{};; std::this_thread::sleep_for(std::chrono::milliseconds(2))) {
      const Descriptor made(
          ::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
      if (made.get() >= 0) return;
      if (errno != EEXIST) fail("create", file_, errno, lock.terms_.option);
      const Sight now = lock.look(file_);
      if (!now.same_holder(before)) {
        before = now;
        since = Clock::now();
      } else if (Clock::now() - since > lock.terms_.patience) {
        ::unlink(file_.c_str());
      }
    }
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() { ::unlink(file_.c_str()); }

 private:
  std::filesystem::path file_;
};

DirectoryLock::DirectoryLock(std::filesystem::path directory, LockTerms terms)
    : directory_(std::move(directory)), terms_(std::move(terms)) {
  // Removes a slash at the end.
  if (!directory_.has_filename()) directory_ = directory_.parent_path();
  file_ = directory_ / "halomesh.lock";
  make_directory();
  try {
    while (!create())
      if (const Sight holder = look(file_); holder.there) outlive(holder);
  } catch (...) {
    stop();
    throw;
  }
}

DirectoryLock::~DirectoryLock() {
  try {
    stop();
  } catch (const std::exception&) {
    // The directory is no longer writable: the next run will consider this holder dead.
  }
}

void DirectoryLock::make_directory() {
  std::error_code error;
  for (std::filesystem::path missing = directory_;
       !missing.empty() && !std::filesystem::exists(missing, error) && !error;
       missing = missing.parent_path())
    made_.insert(made_.begin(), missing);
  require_target(directory_);
  std::filesystem::create_directories(directory_, error);
  if (!error && !std::filesystem::is_directory(directory_, error))
    error = std::make_error_code(std::errc::not_a_directory);
  if (error) {
    const int number = error.value();
    stop();
    fail("make the directory", directory_, number, terms_.option);
  }
}

/// Creates the file; false if it already exists.
bool DirectoryLock::create() {
  Descriptor file(::open(file_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (file.get() < 0) {
    if (errno == EEXIST) return false;
    // The previous run may just have removed the directory that it had created.
    if (errno != ENOENT || ++remade_ > 10) fail("create", file_, errno, terms_.option);
    make_directory();
    return false;
  }
  struct flock lock = whole_file();
  const bool locked = terms_.kernel_locks && ::fcntl(file.get(), F_OFD_SETLK, &lock) == 0;
  record_ = fmt::format("{}, {} since {}\n{}, {}\n", this_process(), terms_.activity, utc_now(),
                        trust_of(locked), unique_id());
  errno = 0;
  if (::pwrite(file.get(), record_.data(), record_.size(), 0) !=
          static_cast<ssize_t>(record_.size()) ||
      ::fdatasync(file.get()) != 0) {
    const int error = errno != 0 ? errno : ENOSPC;  // 0: partly written
    ::unlink(file_.c_str());
    record_.clear();
    fail("write", file_, error, terms_.option);
  }
  lock_ = std::move(file);
  life_ = started_thread([this] { show_life(); });
  return true;
}

/// Returns when the holder is gone or dead; throws Error if it is alive.
void DirectoryLock::outlive(const Sight& holder) {
  // On this machine the kernel lock is reliable; it also shows when its holder has ended.
  const bool local = holder.record.find(fmt::format(" in {}, ", this_boot())) != std::string::npos;
  const bool locked = holder.record.find(trust_of(true)) != std::string::npos;
  const std::string who = first_line(holder.record);
  const Clock::time_point start = Clock::now();
  bool noted = false;
  for (;; std::this_thread::sleep_for(kLookEvery)) {
    const Sight now = look(file_);
    if (!now.same_holder(holder)) return;
    if (now.age != holder.age || (local && now.lock == Sight::kHeld)) break;
    const bool patient = Clock::now() - start < terms_.patience;
    if (!patient && now.lock == Sight::kHeld)
      throw Error(
          fmt::format("{} is in use by {}, which shows no sign of life", directory_.c_str(), who),
          fmt::format("resume or end it; if that process no longer exists, remove {}",
                      file_.c_str()));
    if (!patient || (locked && now.lock == Sight::kFree)) return take_from(now);
    if (!noted && Clock::now() - start > kLookEvery && terms_.note) {
      noted = true;
      terms_.note(fmt::format(
          "{} belongs to {}: waiting up to {} s to see whether it is still running", file_.c_str(),
          who, std::chrono::duration_cast<std::chrono::seconds>(terms_.patience).count()));
    }
  }
  throw Error(fmt::format("{} is in use by {}", directory_.c_str(), who),
              fmt::format("wait for it to end, or give another {}", terms_.option));
}

/// Removes the file of a dead holder, unless another contender has done so.
void DirectoryLock::take_from(const Sight& holder) {
  const Guard guard(*this);
  const Sight now = look(file_);
  if (now.same_holder(holder) && now.age == holder.age && ::unlink(file_.c_str()) != 0 &&
      errno != ENOENT)
    fail("remove", file_, errno, terms_.option);
}

bool DirectoryLock::holds() const {
  const Sight now = look(file_);
  return now.there && now.record == record_;
}

void DirectoryLock::require_held() const {
  const Sight now = look(file_);
  require(now.there && now.record == record_,
          now.there ? fmt::format("{} was taken over by {} while this process was suspended",
                                  directory_.c_str(), first_line(now.record))
                    : fmt::format("{} has been removed while this run was using it", file_.c_str()),
          "make sure that only one run uses the directory, then give the same command again");
}

void DirectoryLock::show_life() {
  sigset_t all{};
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are for the main thread
  for (std::unique_lock guard(mutex_);
       !stopped_.wait_for(guard, terms_.beat, [this] { return stopping_; });)
    ::futimens(lock_.get(), nullptr);
}

void DirectoryLock::stop() {
  if (life_.joinable()) {
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
    }
    stopped_.notify_all();
    life_.join();
    const Guard guard(*this);
    if (holds()) ::unlink(file_.c_str());
  }
  // Directories with content remain: it is the run's output.
  while (!made_.empty() && ::rmdir(made_.back().c_str()) == 0) made_.pop_back();
}

}  // namespace halomesh
