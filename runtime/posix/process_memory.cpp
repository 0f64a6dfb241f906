// SPDX-License-Identifier: Apache-2.0
// The peak memory of this process: see process_memory.hpp.
#include "runtime/posix/process_memory.hpp"

#include <sys/resource.h>

#include <fstream>
#include <string>

namespace halomesh {

bool reset_peak_memory() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5\n" << std::flush;
  return static_cast<bool>(file);
}

std::int64_t peak_memory_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string key; file >> key;) {
    std::int64_t kib = 0;
    if (key == "VmHWM:" && file >> kib) return kib * 1024;
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace halomesh
