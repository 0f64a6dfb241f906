// SPDX-License-Identifier: Apache-2.0
// The control groups of Linux that this process is in. A scheduler such as Slurm keeps a job within
// its share of a node by such a group, a container within its limits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace halomesh {

/// Calls `visit` with the directory of each group, of either version, that limits this process by
/// `controller` ("memory", "cpu"): its own and those around it, up to the topmost. In a container
/// the path of its own may be that of the host, which is not to be seen from inside: then only the
/// topmost exists. Local.
void visit_control_groups(
    const std::string& controller, const std::filesystem::path& proc,
    const std::filesystem::path& groups,
    const std::function<void(const std::filesystem::path& group, int version)>& visit);

/// How many processors the groups' quotas of time amount to, e.g. 0.5; empty without a quota.
/// Local; `proc` and `groups` are a test's.
std::optional<double> processor_quota(const std::filesystem::path& proc = "/proc",
                                      const std::filesystem::path& groups = "/sys/fs/cgroup");

}  // namespace halomesh
