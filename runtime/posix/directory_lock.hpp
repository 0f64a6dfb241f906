// SPDX-License-Identifier: Apache-2.0
// Locks a directory, so that only one run at a time writes to it, on any file system and however
// runs end.
// Must not depend on the files in the directory.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/posix/descriptor.hpp"

namespace halomesh {

/// The description of a DirectoryLock, and its waiting times.
struct LockTerms {
  std::string activity;                          ///< for messages, such as "training"
  std::string option;                            ///< the option that named the directory, such as "
                                                 ///< --out"
  std::function<void(const std::string&)> note;  ///< called if the lock must be waited for
  std::chrono::milliseconds beat{5000};          ///< time between two heartbeats of a holder
  std::chrono::milliseconds patience{30000};     ///< a holder without heartbeat for this long
                                                 ///< counts as dead
  bool kernel_locks = true;                      ///< false: as on a file system without them
};

/// Creates a directory if necessary and locks it until destroyed. Local; one rank of a job holds
/// it.
///
/// The lock is the file `halomesh.lock`, created with O_EXCL, which is atomic on every file system
/// in use (NFS since version 3, Lustre, GPFS). Its text, the record, names the holder. The holder
/// removes it when it ends; a holder that was killed leaves it behind, so the next run must find
/// out whether the holder is alive. It has two signs, and each has limits:
///
/// - A kernel lock on the file (F_OFD_SETLK), released whenever the process ends. On the holder's
///   own machine it is always right. On another machine it may not be: Lustre mounted with
///   `localflock` and NFS with `nolock` or `local_lock` grant locks that only their own node knows
///   about; Lustre mounted with `noflock` answers ENOSYS, others ENOLCK or EOPNOTSUPP; and a server
///   keeps the locks of a crashed node until their lease ends.
/// - A heartbeat: a thread of the holder sets the file's time every `beat`. A contender watches the
///   file for up to `patience` on its own monotonic clock. The clocks of different nodes are never
///   compared. Each check reopens the file, so that NFS asks the server.
///
/// If several contenders find the same dead holder, one takes over: the file is removed only by a
/// process that holds `halomesh.lock.guard` (O_EXCL again, for the duration of two system calls)
/// and finds the dead holder's record in it, as records are unique; then O_EXCL decides. The same
/// holds for the removal at the end. If a process is killed within these two calls, its guard is
/// removed once `patience` has passed.
///
/// A holder that was suspended for longer than `patience` where there is no kernel lock is
/// considered dead: require_held() throws before it overwrites its successor's files.
///
/// A chain of unattended jobs is thus held up by a dead predecessor for `patience` at most, and not
/// at all if it died on the same node or if the file system releases its lock.
class DirectoryLock {
 public:
  /// Throws Error naming the holder if a live one has the directory, and Error if the directory or
  /// the file cannot be created.
  DirectoryLock(std::filesystem::path directory, LockTerms terms);
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  /// Releases the directory. Removes it and its parents if this object created them and they are
  /// empty, so that a refused run leaves nothing behind.
  ~DirectoryLock();

  /// Throws Error if another run has taken over the directory, or the file was removed.
  void require_held() const;

 private:
  struct Sight;
  class Guard;

  void make_directory();
  Sight look(const std::filesystem::path& file) const;
  bool create();
  void outlive(const Sight& holder);
  void take_from(const Sight& holder);
  bool holds() const;
  void show_life();
  void stop();

  std::filesystem::path directory_, file_;
  LockTerms terms_;
  std::vector<std::filesystem::path> made_;  // created directories, parents first
  int remade_ = 0;
  std::string record_;
  Descriptor lock_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread life_;
};

/// A text such as "process 1234 on host n0012 (job 5678)"; without a job, that part is left out.
std::string this_process();

}  // namespace halomesh
