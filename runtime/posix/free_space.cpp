// SPDX-License-Identifier: Apache-2.0
// Free memory and free space of file systems: see free_space.hpp.
#include "runtime/posix/free_space.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <cerrno>

#include "runtime/posix/descriptor.hpp"
#include "runtime/posix/memory_limits.hpp"
#include "runtime/posix/process_memory.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

constexpr decltype(statfs::f_type) kRamDisk = 0x01021994;  // TMPFS_MAGIC of linux/magic.h

[[noreturn]] void cannot_query(const std::filesystem::path& path, int error_number) {
  throw system_error("query the free space of", path, error_number,
                     "give a directory that you may write to");
}

}  // namespace

FreeSpace free_memory(const std::filesystem::path& proc, const std::filesystem::path& groups) {
  FreeSpace free;
  free.is_memory = true;
  if (const std::int64_t node = 1024 * number_behind("MemAvailable:", proc / "meminfo"); node > 0)
    free.bytes = node;
  if (const auto group = memory_limits(proc, groups).group_bytes; group && *group < free.bytes) {
    free.bytes = *group;
    free.in_group = true;
  }
  return free;
}

FreeSpace free_space(int directory, const std::filesystem::path& path, const FreeSpace& memory) {
  struct statvfs volume {};
  struct statfs kind {};
  if (::fstatvfs(directory, &volume) != 0 || ::fstatfs(directory, &kind) != 0)
    cannot_query(path, errno);
  FreeSpace free;
  free.bytes =
      static_cast<std::int64_t>(volume.f_bavail) * static_cast<std::int64_t>(volume.f_frsize);
  return kind.f_type == kRamDisk && memory.bytes < free.bytes ? memory : free;
}

FreeSpace free_space(const std::filesystem::path& path, const FreeSpace& memory) {
  const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) cannot_query(path, errno);
  return free_space(directory.get(), path, memory);
}

}  // namespace halomesh
