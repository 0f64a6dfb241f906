// SPDX-License-Identifier: Apache-2.0
// Open files of other processes: see process_file.hpp.
#include "runtime/posix/process_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <istream>
#include <ostream>
#include <utility>

#include "error.hpp"

namespace halomesh {

ProcessFile ProcessFile::of(const Descriptor& file) {
  struct stat status {};
  require(::fstat(file.get(), &status) == 0, "cannot read the status of an open file",
          "give --stage-dir a directory on a RAM disk or a local file system");
  return {::getpid(), file.get(), status.st_dev, status.st_ino};
}

Descriptor ProcessFile::open() const {
  if (descriptor < 0) return {};
  Descriptor file(::open(fmt::format("/proc/{}/fd/{}", process, descriptor).c_str(),
                         O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) return {};
  const ProcessFile found = of(file);
  return found.device == device && found.inode == inode ? std::move(file) : Descriptor();
}

std::ostream& operator<<(std::ostream& out, const ProcessFile& file) {
  return out << file.process << ' ' << file.descriptor << ' ' << file.device << ' ' << file.inode;
}

std::istream& operator>>(std::istream& in, ProcessFile& file) {
  return in >> file.process >> file.descriptor >> file.device >> file.inode;
}

}  // namespace halomesh
