// SPDX-License-Identifier: Apache-2.0
// The memory of this process: see process_memory.hpp.
#include "runtime/posix/process_memory.hpp"

#include <sys/resource.h>

#include <fstream>

namespace halomesh {
namespace {

constexpr const char* kStatus = "/proc/self/status";

}  // namespace

std::int64_t status_bytes(const std::filesystem::path& status, const std::string& wanted) {
  std::ifstream file(status);
  for (std::string key; file >> key;) {
    std::int64_t kib = 0;
    if (key == wanted && file >> kib) return kib * 1024;
  }
  return 0;
}

bool reset_peak_memory() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5\n" << std::flush;
  return static_cast<bool>(file);
}

std::int64_t peak_memory_bytes() {
  if (const std::int64_t peak = status_bytes(kStatus, "VmHWM:"); peak > 0) return peak;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

std::int64_t resident_memory_bytes() { return status_bytes(kStatus, "VmRSS:"); }

}  // namespace halomesh
