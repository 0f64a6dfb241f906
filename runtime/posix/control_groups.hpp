// SPDX-License-Identifier: Apache-2.0
// The Linux control groups of this process. A scheduler such as Slurm uses them to keep a job
// within its share of a node, a container to keep within its limits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace halomesh {

/// Calls `visit` with the directory of each group, of either version, that limits this process by
/// `controller` ("memory", "cpu"): its own and those around it, up to the topmost. In a container,
/// its own path may be the host's, which is invisible inside: then only the topmost exists. Local.
void visit_control_groups(
    const std::string& controller, const std::filesystem::path& proc,
    const std::filesystem::path& groups,
    const std::function<void(const std::filesystem::path& group, int version)>& visit);

/// The number of processors allowed by the groups' time quotas, e.g. 0.5; empty without a quota.
/// Local; tests pass `proc` and `groups`.
std::optional<double> processor_quota(const std::filesystem::path& proc = "/proc",
                                      const std::filesystem::path& groups = "/sys/fs/cgroup");

}  // namespace halomesh
