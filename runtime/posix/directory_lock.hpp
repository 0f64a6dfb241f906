// SPDX-License-Identifier: Apache-2.0
// A directory that one run at a time writes to, whatever the file system and however runs end.
// Must not depend on what is written.
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

/// How a DirectoryLock introduces itself, and how patient it is.
struct LockTerms {
  std::string activity;                          ///< what messages say is done, such as "training"
  std::string option;                            ///< that named the directory, such as "--out"
  std::function<void(const std::string&)> note;  ///< told when the lock has to be waited for
  std::chrono::milliseconds beat{5000};          ///< between two signs of life of a holder
  std::chrono::milliseconds patience{30000};     ///< without one, a holder is taken for dead
  bool kernel_locks = true;                      ///< false: as on a file system that has none
};

/// Makes a directory if need be and holds it until destroyed. Local; one rank of a job holds it.
///
/// The lock is the file `halomesh.lock`, created with O_EXCL, which is atomic on every file system
/// in use (NFS since version 3, Lustre, GPFS). Its text, the record, names the holder. The end of
/// the holder removes it; a holder that was killed leaves it behind, so the next run has to find
/// out whether the holder lives. It has two witnesses, and believes each only as far as it goes:
///
/// - A kernel lock on the file (F_OFD_SETLK), dropped when the process ends, however it does. Seen
///   from the machine of the holder it is the truth, at once. From another one it may not be:
///   Lustre mounted with `localflock` and NFS with `nolock` or `local_lock` grant locks that only
///   their own node knows of; Lustre mounted with `noflock` answers ENOSYS, others ENOLCK or
///   EOPNOTSUPP; and a server keeps the locks of a crashed node until their lease ends.
/// - Signs of life: while it lives, a thread of the holder sets the file's time every `beat`. A
///   contender watches the file for up to `patience` by its own monotonic clock. The clocks of
///   different nodes are never compared. Each look opens the file anew, which NFS answers from the
///   server.
///
/// Of contenders that find the same dead holder, one takes its place: the file is removed only by
/// who holds `halomesh.lock.guard` (O_EXCL again, for as long as two system calls take) and finds
/// the dead holder's very record in it, as records never repeat; then O_EXCL decides. The same
/// holds for the removal at the end. A guard that was killed within its two calls is removed once
/// `patience` has passed.
///
/// A holder that was suspended for longer than `patience` where there is no kernel lock is taken
/// for dead: require_held() tells it so before it writes over its successor's files.
///
/// A chain of unattended jobs is thus held up by a dead predecessor for `patience` at most, and not
/// at all where that died on the same node or its file system drops its lock.
class DirectoryLock {
 public:
  /// Throws Error that names the holder when a live one has the directory, and when the directory
  /// or the file cannot be made.
  DirectoryLock(std::filesystem::path directory, LockTerms terms);
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  /// Releases the directory and removes it, and parents of it, if this object made them and they
  /// are empty: a run that was refused leaves nothing behind.
  ~DirectoryLock();

  /// Throws Error when another run has taken the directory over, or somebody removed the file.
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
  std::vector<std::filesystem::path> made_;  // directories, parents first
  int remade_ = 0;
  std::string record_;
  Descriptor lock_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread life_;
};

/// "process 1234 on host n0012 (job 5678)"; without a job, that part is left out.
std::string this_process();

}  // namespace halomesh
