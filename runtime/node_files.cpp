// Files of other ranks on the same node: see node_files.hpp.
#include "runtime/node_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>
#include <string>

#include "error.hpp"

namespace halomesh {
namespace {

/// What tells one file of a node from all others.
std::string identity_of(const struct stat& status) {
  return cat(status.st_dev, ':', status.st_ino);
}

}  // namespace

std::vector<Descriptor> open_node_files(const Comm& group, const Descriptor& mine) {
  std::vector<Descriptor> files(static_cast<std::size_t>(group.size()));
  struct stat status {};
  require(::fstat(mine.get(), &status) == 0, "a file of the stage cannot be looked at");
  const Comm node = group.split_by_node();
  for (const std::string& text : node.all_gather(
           cat(group.rank(), ' ', ::getpid(), ' ', mine.get(), ' ', identity_of(status)))) {
    std::istringstream fields(text);
    int rank = 0, process = 0, descriptor = 0;
    std::string identity;
    fields >> rank >> process >> descriptor >> identity;
    if (rank == group.rank()) continue;
    // Another name space may have another process of this number.
    const std::string path = cat("/proc/", process, "/fd/", descriptor);
    if (::stat(path.c_str(), &status) == 0 && identity_of(status) == identity)
      files[static_cast<std::size_t>(rank)] = Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  }
  return files;
}

}  // namespace halomesh
