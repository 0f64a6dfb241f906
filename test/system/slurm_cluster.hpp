// SPDX-License-Identifier: Apache-2.0
// Runs a small real Slurm cluster, and submits jobs to it.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "test/system/script_job.hpp"

namespace halomesh::test {

inline std::string slurm_tool() {
  return quoted((source_root() / "test/harness/slurm_cluster.sh").string());
}

/// False, with the reason printed once, if this machine cannot run the cluster.
inline bool slurm_is_possible() {
  static const bool possible = [] {
    const bool yes = std::system((slurm_tool() + " check >/dev/null 2>&1").c_str()) == 0;
    if (!yes) {
      std::fputs("skipped: ", stderr);
      [[maybe_unused]] const int status = std::system((slurm_tool() + " check >&2").c_str());
    }
    return yes;
  }();
  return possible;
}

/// What Slurm reports about a job.
struct SlurmJob {
  std::string state;      ///< e.g. "COMPLETED"
  std::string exit_code;  ///< of the batch script, e.g. "75:0" (code:signal)
  int restarts = 0;
};

/// Four nodes (`start`), or a controller of whole machines without nodes (`machines`).
class SlurmCluster {
 public:
  explicit SlurmCluster(const std::string& kind = "start") {
    const std::string shared =
        quoted(source_root().string()) + ' ' + quoted(workshop().root().string());
    const int status = tool(kind, kind == "start" ? shared : "");
    CAPTURE(read_file(said_));
    REQUIRE(status == 0);
  }
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;
  ~SlurmCluster() { tool("stop", ""); }

  /// Runs a Slurm command in `directory` and returns its output.
  std::string say(const std::string& command, const fs::path& directory = workshop().root(),
                  int* exit_code = nullptr) const {
    const int code = shell("export SLURM_CONF=" + quoted((state_ / "slurm.conf").string()) + "; " +
                               command + " >" + quoted(said_.string()) + " 2>&1",
                           directory);
    if (exit_code != nullptr) *exit_code = code;
    return read_file(said_);
  }

  /// Submits a script; the job's number.
  std::string submit(const fs::path& script, const std::string& options = "") const {
    int code = 1;
    std::string said = say("sbatch --parsable " + options + ' ' + quoted(script.string()),
                           script.parent_path(), &code);
    CAPTURE(said);
    REQUIRE(code == 0);
    return said.substr(0, said.find_first_of(";\n"));
  }

  SlurmJob job(const std::string& number) const {
    const std::string text = ' ' + say("scontrol show job -o " + number);
    SlurmJob job{field(text, "JobState"), field(text, "ExitCode"), 0};
    const std::string restarts = field(text, "Restarts");
    job.restarts = restarts.empty() ? 0 : std::stoi(restarts);
    return job;
  }

  /// Waits until the job has ended for good; false when `seconds` pass first. A requeued job does
  /// not have to wait the two minutes for which Slurm holds it; but a node refuses it within the
  /// second in which it ended there ("credential revoked").
  bool wait_for_end(const std::string& number, double seconds) const {
    int released = 0;
    return wait_until(seconds, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      const SlurmJob now = job(number);
      if (now.state == "PENDING" && now.restarts > released) {
        released = now.restarts;
        say("scontrol update JobId=" + number + " StartTime=now+3");
      }
      // A job that is about to be requeued has failed for a moment, but is still in the queue.
      return now.state == "COMPLETED" || say("squeue -h -j " + number).empty();
    });
  }

  /// The processes of the job's ranks, by rank.
  std::map<int, pid_t> ranks(const std::string& number) const {
    std::map<int, pid_t> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      if (read_file(entry.path() / "comm") != "halomesh\n") continue;
      const std::string variables = '\0' + read_file(entry.path() / "environ");
      if (variables.find(std::string("\0SLURM_JOB_ID=", 14) + number + '\0') == std::string::npos)
        continue;
      const std::string name = std::string("\0SLURM_PROCID=", 14);
      for (const std::string& rank_name : {std::string("\0OMPI_COMM_WORLD_RANK=", 22), name}) {
        const std::size_t at = variables.find(rank_name);
        if (at == std::string::npos) continue;
        found[std::stoi(variables.substr(at + rank_name.size()))] =
            std::stoi(entry.path().filename().string());
        break;
      }
    }
    return found;
  }

 private:
  int tool(const std::string& command, const std::string& more) const {
    return shell("OWNER=" + std::to_string(::getpid()) + ' ' + slurm_tool() + ' ' + command + ' ' +
                     quoted(state_.string()) + ' ' + more + " >" + quoted(said_.string()) + " 2>&1",
                 workshop().root());
  }
  static std::string field(const std::string& text, const std::string& name) {
    const std::size_t at = text.find(' ' + name + '=');
    if (at == std::string::npos) return {};
    const std::size_t begin = at + name.size() + 2;
    return text.substr(begin, text.find_first_of(" \n", begin) - begin);
  }

  fs::path state_ = workshop().fresh("slurm"), said_ = workshop().fresh("said");
};

}  // namespace halomesh::test
