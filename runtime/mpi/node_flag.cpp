// SPDX-License-Identifier: Apache-2.0
// A flag that the ranks of a node share: see node_flag.hpp.
#include "runtime/mpi/node_flag.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "error.hpp"
#include "runtime/posix/descriptor.hpp"
#include "simulation.hpp"

namespace halomesh {
namespace {

constexpr std::size_t kFlagBytes = sizeof(std::atomic<int>);

/// A page of zeros in memory alone; none if the system refuses it.
Descriptor make_flag_memory() {
  Descriptor memory(::memfd_create("halomesh-flag", MFD_CLOEXEC));
  if (memory.get() >= 0 && ::posix_fallocate(memory.get(), 0, kFlagBytes) != 0) return Descriptor();
  return memory;
}

/// Identifies the file, alike in each process; "" without a file.
std::string identity_of(const Descriptor& file) {
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return {};
  return fmt::format("{}:{}", status.st_dev, status.st_ino);
}

}  // namespace

NodeFlag::NodeFlag(const Comm& node) {
  static_assert(std::atomic<int>::is_always_lock_free);
  if constexpr (simulation::kOn) return;  // ranks are threads of one process
  const Descriptor made = node.rank() == 0 ? make_flag_memory() : Descriptor();
  const std::string path = node.broadcast(fmt::format("/proc/{}/fd/{}", ::getpid(), made.get()), 0);
  const std::string identity = node.broadcast(identity_of(made), 0);
  const Descriptor opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  // Containers number their processes separately: an equal path may lead to another file.
  void* memory = MAP_FAILED;
  if (!identity.empty() && identity_of(opened) == identity)
    memory = ::mmap(nullptr, kFlagBytes, PROT_READ | PROT_WRITE, MAP_SHARED, opened.get(), 0);
  const bool mapped = memory != MAP_FAILED;
  // All ranks agree, and the first one keeps its descriptor open until all have opened it.
  if (node.max(std::int64_t{mapped ? 0 : 1}) == 0)
    flag_ = static_cast<std::atomic<int>*>(memory);  // zeros are a cleared flag
  else if (mapped)
    ::munmap(memory, kFlagBytes);
}

NodeFlag::~NodeFlag() {
  if (is_shared()) ::munmap(flag_, kFlagBytes);
}

}  // namespace halomesh
