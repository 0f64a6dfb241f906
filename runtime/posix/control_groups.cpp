// SPDX-License-Identifier: Apache-2.0
// The control groups of this process: see control_groups.hpp.
#include "runtime/posix/control_groups.hpp"

#include <algorithm>
#include <fstream>

namespace halomesh {

namespace fs = std::filesystem;

void visit_control_groups(const std::string& controller, const fs::path& proc,
                          const fs::path& groups,
                          const std::function<void(const fs::path& group, int version)>& visit) {
  const auto visit_up = [&](const fs::path& top, fs::path path, int version) {
    for (;; path = path.parent_path()) {
      visit(top / path, version);
      if (path.empty() || path == path.parent_path()) return;
    }
  };
  std::ifstream file(proc / "self" / "cgroup");
  // NUMBER:CONTROLLERS:/PATH, in version 2 without controllers
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(":/");
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string path = line.substr(second + 2);
    const std::string controllers =
        first < second ? "," + line.substr(first + 1, second - first - 1) + "," : ",";
    if (controllers == ",," || first == second)
      visit_up(groups, path, 2);
    else if (controllers.find("," + controller + ",") != std::string::npos)
      visit_up(groups / controller, path, 1);
  }
}

std::optional<double> processor_quota(const fs::path& proc, const fs::path& groups) {
  std::optional<double> least;
  visit_control_groups("cpu", proc, groups, [&](const fs::path& group, int version) {
    double quota = 0, period = 0;
    if (version == 2) {
      if (!(std::ifstream(group / "cpu.max") >> quota >> period)) return;  // "max" is no number
    } else if (!(std::ifstream(group / "cpu.cfs_quota_us") >> quota) ||
               !(std::ifstream(group / "cpu.cfs_period_us") >> period)) {
      return;
    }
    // Version 1 writes -1 if there is no quota.
    if (quota > 0 && period > 0) least = std::min(least.value_or(quota / period), quota / period);
  });
  return least;
}

}  // namespace halomesh
