// SPDX-License-Identifier: Apache-2.0
// Jobs on the small Slurm cluster: two nodes with two ranks each, and checks of their results.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "test/system/curve.hpp"
#include "test/system/slurm_cluster.hpp"

namespace halomesh::test {

/// A site of this cluster's kind that leaves `margin_s` of a job's time to its end.
inline fs::path site(const fs::path& directory, int margin_s) {
  std::string profile = read_file(source_root() / "jobscripts/sites/generic-slurm.ini");
  const std::string line = "end-margin = 60";
  REQUIRE(profile.find(line) != std::string::npos);
  profile.replace(profile.find(line), line.size(), "end-margin = " + std::to_string(margin_s));
  const fs::path file = directory / "site.ini";
  std::ofstream(file) << profile;
  return file;
}

/// Two nodes with two ranks each; of three minutes, `margin_s` are left to the end.
inline Arguments two_nodes(const ScriptJob& job, int margin_s) {
  return {{"site", site(job.directory, margin_s).string()},
          {"cores", "48"},
          {"nodes", "2"},
          {"ranks-per-node", "2"},
          {"threads", "1"},
          {"time", "00:03:00"}};
}

inline ScriptJob job_of_steps(const std::string& steps,
                              const std::string& checkpoint_every = "10") {
  ScriptJob job;
  job.scene.options["steps"] = steps;
  job.scene.options["checkpoint-every"] = checkpoint_every;
  return job;
}

/// The output of the job of this number, over all its starts.
inline std::string log_of(const ScriptJob& job, const std::string& number) {
  return read_file(job.directory / ("halomesh-" + number + ".log"));
}

/// Waits until a run has done this many steps in total.
inline bool has_trained(const ScriptJob& job, int steps) {
  return wait_until(40, [&] {
    const std::string metrics = read_file(job.scene.out / "metrics.jsonl");
    return lines_starting(metrics, "{\"event\":\"step\"") >= steps;
  });
}

/// Asserts that the job's run is the same as one by the plain launcher, never interrupted.
inline void check_same_as_uninterrupted(const ScriptJob& job) {
  ScriptJob plain =
      job_of_steps(job.scene.options.at("steps"), job.scene.options.at("checkpoint-every"));
  const Outcome outcome = plain.scene.train(200);
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  check_same_curve(plain.scene.out, job.scene.out);
  check_same_weights(checkpoints(plain.scene.out).back(), checkpoints(job.scene.out).back());
}

/// The job ends by itself, and its run is the uninterrupted one.
inline void check_ends_well(const SlurmCluster& slurm, const ScriptJob& job,
                            const std::string& number) {
  const bool ended = slurm.wait_for_end(number, 300);
  CAPTURE(log_of(job, number));
  REQUIRE(ended);
  CHECK(slurm.job(number).state == "COMPLETED");
  CHECK(log_of(job, number).find("the training is done") != std::string::npos);
  CHECK(log_of(job, number).find("resuming from") != std::string::npos);
  check_same_as_uninterrupted(job);
}

/// A job whose fastest steps would take eight seconds on this machine stops at a limit of five and
/// is started again until it ends.
inline void check_hits_its_limit(const SlurmCluster& slurm, const Arguments& more) {
  const ScriptJob tried = job_of_steps("200");
  const Outcome outcome = tried.scene.train(200);
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  std::vector<double> seconds;
  std::istringstream lines(read_file(tried.scene.out / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    if (const auto json = nlohmann::json::parse(line); json["event"] == "step")
      seconds.push_back(json["seconds"]);
  std::sort(seconds.begin(), seconds.end());
  const ScriptJob job = job_of_steps(std::to_string(static_cast<int>(8 / seconds.at(10))));
  Arguments options = two_nodes(job, 175);
  for (const auto& [name, value] : more) options[name] = value;
  const std::string number = slurm.submit(job.make("job.sh", options));
  check_ends_well(slurm, job, number);
  const std::string log = log_of(job, number);
  CAPTURE(log);
  const int restarts = slurm.job(number).restarts;
  CHECK(restarts >= 1);
  int stops = 0;
  for (auto at = log.find("stopped cleanly"); at != std::string::npos;
       at = log.find("stopped cleanly", at + 1))
    ++stops;
  CHECK(stops == restarts);
  CHECK(log.find("4 ranks as 2 replicas x 2 parts") != std::string::npos);
}

}  // namespace halomesh::test
