// SPDX-License-Identifier: Apache-2.0
// What the scheduler says of a job.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace halomesh {

/// The standard output of a command, which is found in PATH and started without a shell; its
/// standard error is discarded. Empty when it cannot be started, fails or takes longer than
/// `limit`: it is then killed.
std::optional<std::string> output_of(const std::vector<std::string>& command,
                                     std::chrono::milliseconds limit);

/// "RUNNING 1:02:03 2:57:57 node[1-4]" (state, elapsed, left, nodes or reason) of `squeue`, or what
/// `pjstat` says of the job, for the scheduler "slurm" or "pjm". "not in the queue" for a job that
/// they do not list; "" when `job` is no number, or the command does not exist or does not answer
/// within some seconds.
std::string job_state(const std::string& scheduler, const std::string& job);

}  // namespace halomesh
