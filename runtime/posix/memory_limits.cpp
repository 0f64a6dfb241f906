// SPDX-License-Identifier: Apache-2.0
// Memory limits of control groups and of ulimit: see memory_limits.hpp.
#include "runtime/posix/memory_limits.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "runtime/posix/control_groups.hpp"
#include "runtime/posix/process_memory.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

/// The names of a group's files, which differ between the two versions.
struct GroupFiles {
  const char *limit, *slowing;  // beyond `slowing`, which only version 2 has, a group crawls
  const char* usage;
  const char* cached[2];  // keys of memory.stat
};
constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes",
                                  "",
                                  "memory.usage_in_bytes",
                                  {"total_inactive_file", "total_active_file"}};
constexpr GroupFiles kVersion2 = {
    "memory.max", "memory.high", "memory.current", {"inactive_file", "active_file"}};

/// Version 1 writes a huge number where there is no limit, version 2 a word.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

std::optional<std::int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (!(file >> number)) return {};
  return number;
}

void lower(std::optional<std::int64_t>& least, std::int64_t bytes) {
  least = std::min(least.value_or(bytes), std::max<std::int64_t>(bytes, 0));
}

/// Finds the rest of a limit; `used_key` of self/status gives the used part.
void read_rlimit(const fs::path& proc, decltype(RLIMIT_AS) resource, const char* used_key,
                 std::optional<std::int64_t>& least) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  lower(least, static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, kNoLimit)) -
                   1024 * number_behind(used_key, proc / "self" / "status"));
}

}  // namespace

MemoryLimits memory_limits(const fs::path& proc, const fs::path& groups) {
  MemoryLimits limits;
  visit_control_groups("memory", proc, groups, [&](const fs::path& group, int version) {
    const GroupFiles& files = version == 1 ? kVersion1 : kVersion2;
    const auto usage = number_in(group / files.usage);
    for (const char* name : {files.limit, files.slowing})
      if (const auto limit = number_in(group / name); limit && usage && *limit < kNoLimit)
        lower(limits.group_bytes, *limit - *usage +
                                      number_behind(files.cached[0], group / "memory.stat") +
                                      number_behind(files.cached[1], group / "memory.stat"));
  });
  read_rlimit(proc, RLIMIT_AS, "VmSize:", limits.address_bytes);
  read_rlimit(proc, RLIMIT_DATA, "VmData:", limits.process_bytes);
  return limits;
}

}  // namespace halomesh
