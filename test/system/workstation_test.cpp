// SPDX-License-Identifier: Apache-2.0
// Runs the job script for one machine without a scheduler.
#include <doctest/doctest.h>

#include "test/system/script_job.hpp"

namespace halomesh::test {
namespace {

constexpr int kStopped = 75;

Arguments two_ranks(const std::string& time) {
  return {{"site", "workstation"},
          {"cores", "2"},
          {"ranks-per-node", "2"},
          {"threads", "1"},
          {"time", time}};
}

/// Runs the script to its end; repeated if mpirun itself crashed, as Open MPI 4.1.4 sometimes does
/// after its ranks are gone: the script treats that as a dead rank.
int run_script(const fs::path& script, const ScriptJob& job) {
  constexpr int kCrashed = 139;
  int code = kCrashed;
  for (int attempt = 0; code == kCrashed && attempt < 3; ++attempt)
    code = shell("bash " + quoted(script.string()) + " >>log 2>&1", job.directory);
  return code;
}

}  // namespace

TEST_CASE("a workstation's script stops at its limit and resumes when run again") {
  ScriptJob job;
  job.scene.options["steps"] = "1000000";
  const fs::path endless = job.make("job.sh", two_ranks("00:00:02"));
  CHECK(run_script(endless, job) == kStopped);
  CAPTURE(read_file(job.directory / "log"));
  const int first = job.last_step();
  REQUIRE(first > 0);

  job.scene.options["steps"] = std::to_string(first + 20);
  const fs::path rest = job.make("rest.sh", two_ranks("00:05:00"));
  CHECK(run_script(rest, job) == 0);
  CHECK(job.last_step() == first + 20);
  const std::string log = read_file(job.directory / "log");
  CHECK(log.find("resuming from") != std::string::npos);
  CHECK(log.find("the training is done") != std::string::npos);
}

TEST_CASE("a workstation's script passes a stop signal on to the ranks") {
  ScriptJob job;
  job.scene.options["steps"] = "1000000";
  const fs::path script = job.make("job.sh", two_ranks("00:05:00"));
  const std::string metrics = quoted((job.scene.out / "metrics.jsonl").string());
  const int code =
      shell("bash " + quoted(script.string()) + " >log 2>&1 & job=$!; until [ -s " + metrics +
                " ]; do sleep 0.1; done; sleep 0.5; kill -TERM $job; wait $job",
            job.directory, 60);
  CAPTURE(read_file(job.directory / "log"));
  CHECK(code == kStopped);
  CHECK(job.last_step() > 0);
}

}  // namespace halomesh::test
