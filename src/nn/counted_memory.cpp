// SPDX-License-Identifier: Apache-2.0
// Memory that is counted: see counted_memory.hpp.
#include "src/nn/counted_memory.hpp"

#include <omp.h>
#include <sys/mman.h>

#include <map>

#include "error.hpp"

namespace halomesh {
namespace {

thread_local CountedMemory* current = nullptr;
thread_local std::map<void*, std::size_t> reserved;  // size of each block in bytes

}  // namespace

CountedMemory::CountedMemory(int threads) : threads_before_(omp_get_max_threads()) {
  require(!on(), "memory is being counted already");
  if (threads > 0) omp_set_num_threads(threads);
  current = this;
}
CountedMemory::~CountedMemory() {
  current = nullptr;
  omp_set_num_threads(threads_before_);
}

bool CountedMemory::on() { return current != nullptr; }

void* CountedMemory::reserve(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw Error(fmt::format("a layer needs {:.3g} GB of memory, which this process cannot address",
                            1e-9 * static_cast<double>(bytes)),
                "cut each sample into more parts or use a smaller batch; raise the limit of the "
                "address space, if there is one (ulimit -v)");
  reserved[memory] = bytes;
  current->bytes_ += static_cast<std::int64_t>(bytes);
  return memory;
}

bool CountedMemory::release(void* memory) {
  if (reserved.empty()) return false;
  const auto found = reserved.find(memory);
  if (found == reserved.end()) return false;
  munmap(memory, found->second);
  if (on()) current->bytes_ -= static_cast<std::int64_t>(found->second);
  reserved.erase(found);
  return true;
}

}  // namespace halomesh
