// SPDX-License-Identifier: Apache-2.0
// The memory of this process: see process_memory.hpp.
#include "runtime/posix/process_memory.hpp"

#include <sys/resource.h>

#include <fstream>

namespace halomesh {
namespace {

std::int64_t own_bytes(const std::string& key) {
  return 1024 * number_behind(key, "/proc/self/status");
}

}  // namespace

std::int64_t number_behind(const std::string& key, const std::filesystem::path& path) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    std::int64_t number = 0;
    if (word == key && file >> number) return number;
  }
  return 0;
}

bool reset_peak_memory() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5\n" << std::flush;
  return static_cast<bool>(file);
}

std::int64_t peak_memory_bytes() {
  if (const std::int64_t peak = own_bytes("VmHWM:"); peak > 0) return peak;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

std::int64_t resident_memory_bytes() { return own_bytes("VmRSS:"); }

}  // namespace halomesh
