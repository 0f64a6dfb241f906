// SPDX-License-Identifier: Apache-2.0
// Locks on directories: one holder, named, however holders end and with or without locks of the
// file system.
#include "runtime/posix/directory_lock.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

const LockTerms kTerms{"training", "--out", {}};
/// A file system without locks, and patience for tests: beats may be late where others compute.
const LockTerms kNoKernelLocks{"training", "--out", {}, milliseconds(20), milliseconds(600), false};
constexpr const char* kForeign =
    "process 7 on host far (job 42), training since 2026-01-01T00:00:00Z\n"
    "locked in another-boot, 7-1-1\n";

std::string boot() {
  std::string id = contents("/proc/sys/kernel/random/boot_id");
  return id.substr(0, id.find('\n'));
}

/// The record of a killed process of this machine.
std::string dead_record() {
  return "process 7 on host here, training since then\nlocked in " + boot() + ", 7-1-1\n";
}

/// A process that tries to lock the directory, reports the result, and holds it until killed.
class Contender {
 public:
  Contender(const std::filesystem::path& directory, const LockTerms& terms) {
    REQUIRE(::pipe(said_.data()) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) act(directory, terms);
    ::close(said_[1]);
  }
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  ~Contender() {
    kill();
    ::close(said_[0]);
  }
  bool took() {
    char answer = '?';
    REQUIRE(::read(said_[0], &answer, 1) == 1);
    return answer == 'y';
  }
  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    pid_ = -1;
  }

 private:
  [[noreturn]] void act(const std::filesystem::path& directory, const LockTerms& terms) {
    std::optional<DirectoryLock> lock;
    try {
      lock.emplace(directory, terms);
    } catch (const std::exception&) {
    }
    const char answer = lock ? 'y' : 'n';
    if (::write(said_[1], &answer, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }

  std::array<int, 2> said_{};
  pid_t pid_ = -1;
};

std::string refusal(const std::filesystem::path& directory, const LockTerms& terms) {
  return error_of([&] { const DirectoryLock lock(directory, terms); });
}

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST_CASE("directory lock: one holder at a time, named to others, and nothing left behind") {
  const TempDirectory directory;
  for (const LockTerms& terms : {kTerms, kNoKernelLocks}) {
    CAPTURE(terms.kernel_locks);
    std::optional<DirectoryLock> first(std::in_place, directory.path(), terms);
    const std::string error = refusal(directory.path(), terms);
    CHECK(contains(error, fmt::format("{} is in use by process {} on host ",
                                      directory.path().c_str(), ::getpid())));
    CHECK(contains(error, ", training since 2"));
    CHECK(contains(error, "wait for it to end, or give another --out"));
    CHECK_NOTHROW(first->require_held());
    first.reset();
    CHECK(directory.entries() == 0);
    { const DirectoryLock third(directory.path(), terms); }
    CHECK(directory.entries() == 0);
  }
}

TEST_CASE("directory lock: the job is named") {
  const TempDirectory directory;
  ::setenv("SLURM_JOB_ID", "5678", 1);
  const DirectoryLock lock(directory.path(), kTerms);
  ::unsetenv("SLURM_JOB_ID");
  CHECK(contains(refusal(directory.path(), kTerms), "(job 5678), training since"));
}

TEST_CASE("directory lock: creates the directory, and removes it if it stays empty") {
  const TempDirectory top;
  { const DirectoryLock lock(top / "a/b/c", kTerms); }
  CHECK(top.entries() == 0);
  { const DirectoryLock lock(top / "a/b/", kTerms); }
  CHECK(top.entries() == 0);
  {
    const DirectoryLock lock(top / "a/b", kTerms);
    put_contents(top / "a/b/result", "it");
  }
  CHECK(contents(top / "a/b/result") == "it");
  { const DirectoryLock lock(top / "a", kTerms); }
  CHECK(contents(top / "a/b/result") == "it");
}

TEST_CASE("directory lock: a killed holder is replaced at once on its own machine") {
  const TempDirectory directory;
  Contender first(directory.path(), kTerms);
  REQUIRE(first.took());
  CHECK(contains(refusal(directory.path(), kTerms), "is in use by process"));
  first.kill();
  CHECK(std::filesystem::exists(directory / "halomesh.lock"));
  CHECK(seconds_of([&] { const DirectoryLock second(directory.path(), kTerms); }) < 5);
  CHECK(directory.entries() == 0);
}

TEST_CASE("directory lock: without kernel locks the heartbeat decides") {
  const TempDirectory directory;
  Contender first(directory.path(), kNoKernelLocks);
  REQUIRE(first.took());
  for (int i = 0; i < 3; ++i)
    CHECK(contains(refusal(directory.path(), kNoKernelLocks), "is in use by process"));
  first.kill();
  std::string notes;
  LockTerms terms = kNoKernelLocks;
  terms.note = [&](const std::string& text) { notes += text; };
  CHECK(seconds_of([&] { const DirectoryLock second(directory.path(), terms); }) >= 0.6);
  CHECK(contains(notes, "waiting up to 0 s to see whether it is still running"));
  CHECK(directory.entries() == 0);
}

TEST_CASE("directory lock: a holder on another machine is alive as long as its heartbeat") {
  const TempDirectory directory;
  const auto file = directory / "halomesh.lock";
  put_contents(file, kForeign);
  // The kernel of this machine knows of no lock, which does not matter.
  LockTerms terms = kTerms;
  terms.patience = milliseconds(3000);
  {
    std::atomic<bool> stop = false;
    std::thread life([&] {
      for (; !stop; std::this_thread::sleep_for(milliseconds(100)))
        std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now());
    });
    const std::string error = refusal(directory.path(), terms);
    stop = true;
    life.join();
    CHECK(contains(error, "is in use by process 7 on host far (job 42), training since 2026"));
  }
  CHECK(contents(file) == kForeign);
  terms.patience = milliseconds(600);
  { const DirectoryLock heir(directory.path(), terms); }
  CHECK(directory.entries() == 0);
}

TEST_CASE("directory lock: exactly one of many contenders takes over from a dead holder") {
  int rounds = 0;
  const auto contend = [&](const std::string& record, const LockTerms& terms, int repetitions) {
    for (int i = 0; i < repetitions; ++i, ++rounds) {
      const TempDirectory directory;
      put_contents(directory / "halomesh.lock", record);
      std::array<std::optional<Contender>, 4> contenders;
      for (auto& contender : contenders) contender.emplace(directory.path(), terms);
      int holders = 0;
      for (auto& contender : contenders) holders += contender->took() ? 1 : 0;
      CHECK(holders == 1);
      CHECK(directory.entries() == 1);
    }
  };
  contend(dead_record(), kTerms, 80);  // found at once, all at the same moment
  contend(kForeign, kNoKernelLocks, 2);
  CHECK(rounds == 82);
}

TEST_CASE("directory lock: a holder considered dead gets an error before it writes") {
  const TempDirectory directory;
  const auto file = directory / "halomesh.lock";
  {
    const DirectoryLock lock(directory.path(), kTerms);
    put_contents(file, kForeign);
    CHECK(contains(error_of([&] { lock.require_held(); }),
                   "was taken over by process 7 on host far (job 42)"));
  }
  CHECK(contents(file) == kForeign);
  std::filesystem::remove(file);
  const DirectoryLock lock(directory.path(), kTerms);
  std::filesystem::remove(file);
  CHECK(contains(error_of([&] { lock.require_held(); }), "has been removed"));
}

TEST_CASE("directory lock: only one process at a time removes the file") {
  const TempDirectory directory;
  const auto file = directory / "halomesh.lock", guard = directory / "halomesh.lock.guard";
  put_contents(file, dead_record());
  put_contents(guard, "");
  std::thread other([&] {
    for (int i = 0; i < 10; ++i) {
      std::this_thread::sleep_for(milliseconds(30));
      std::filesystem::last_write_time(guard, std::filesystem::file_time_type::clock::now());
      CHECK(contents(file) == dead_record());
    }
    put_contents(file, kForeign);  // the guard is held
    std::filesystem::remove(guard);
  });
  LockTerms terms = kTerms;
  terms.patience = milliseconds(2000);
  bool still = false;
  terms.note = [&](const std::string& text) {
    still = contains(text, "belongs to process 7 on host far");
  };
  { const DirectoryLock lock(directory.path(), terms); }
  other.join();
  CHECK(still);  // it had to check again
  CHECK(directory.entries() == 0);
}

TEST_CASE("directory lock: the guard of a killed process is removed") {
  const TempDirectory directory;
  put_contents(directory / "halomesh.lock", dead_record());
  put_contents(directory / "halomesh.lock.guard", "");
  { const DirectoryLock lock(directory.path(), kNoKernelLocks); }
  CHECK(directory.entries() == 0);
}

TEST_CASE("directory lock: errors name what cannot be locked") {
  const TempDirectory directory;
  put_contents(directory / "file", "mine");
  std::filesystem::create_symlink("file", directory / "halomesh.lock");
  CHECK(contains(refusal(directory.path(), kTerms), "cannot open"));
  CHECK(contents(directory / "file") == "mine");
  CHECK(contains(refusal(directory / "file", kTerms), "Not a directory"));
  CHECK(contains(refusal(directory / "file/below", kTerms), "Not a directory"));
  CHECK(contains(refusal(directory / std::string(300, 'a'), kTerms), "File name too long"));
  CHECK(contains(refusal("/proc", kTerms), "cannot create /proc/halomesh.lock"));
  std::filesystem::remove(directory / "halomesh.lock");
  std::filesystem::create_directory(directory / "halomesh.lock");
  try {  // which is not the program's, so that no hint says to remove it
    const DirectoryLock lock(directory.path(), kTerms);
    FAIL("locked");
  } catch (const Error& error) {
    CHECK(contains(error.what(), "is not a regular file"));
    CHECK(contains(error.hint(), "rename it or choose another directory"));
  }
}

}  // namespace
}  // namespace halomesh
