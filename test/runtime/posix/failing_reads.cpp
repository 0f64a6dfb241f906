// SPDX-License-Identifier: Apache-2.0
// The functions of the system by which files are read, in place of those of the C library: see
// failing_reads.hpp.
#include "test/runtime/posix/failing_reads.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace halomesh {
namespace {

struct Plan {
  std::string name;
  int error_number = 0;  // 0: none
  std::int64_t spared = 0;
};
Plan plan;

/// Whether this read is the one that fails.
bool fails(int fd) {
  if (plan.error_number == 0 || plan.spared < 0) return false;
  std::array<char, 4096> path{};
  const ssize_t length =
      ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path.data(), path.size());
  if (length < 0 ||
      std::string_view(path.data(), static_cast<std::size_t>(length)).find(plan.name) ==
          std::string_view::npos)
    return false;
  if (plan.spared-- > 0) return false;
  errno = plan.error_number;
  return true;
}

}  // namespace

FailingRead::FailingRead(const std::string& name, int error_number, std::int64_t spared) {
  plan = {name, error_number, spared};
}
FailingRead::~FailingRead() { plan = {}; }
bool FailingRead::has_failed() const { return plan.spared < 0; }

}  // namespace halomesh

extern "C" {

ssize_t read(int fd, void* to, size_t count) {
  return halomesh::fails(fd) ? -1 : ::syscall(SYS_read, fd, to, count);
}
ssize_t pread(int fd, void* to, size_t count, off_t offset) {
  return halomesh::fails(fd) ? -1 : ::syscall(SYS_pread64, fd, to, count, offset);
}
ssize_t pread64(int fd, void* to, size_t count, off64_t offset) {
  return halomesh::fails(fd) ? -1 : ::syscall(SYS_pread64, fd, to, count, offset);
}

}  // extern "C"
