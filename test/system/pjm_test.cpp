// SPDX-License-Identifier: Apache-2.0
// Job scripts for PJM, checked against its documented rules and run by a stand-in for pjsub.
#include <doctest/doctest.h>

#include "test/system/script_job.hpp"

namespace halomesh::test {
namespace {

constexpr const char* kEndless = "1000000";

/// The tools of a login node, and their logs.
struct Pjm {
  fs::path state = workshop().fresh("pjm");
  fs::path tools = source_root() / "test/harness/pjm_stub";

  Pjm() { fs::create_directories(state); }
  int run(const std::string& command, const fs::path& directory, const char* more = "") const {
    return shell("export PJM_STUB_STATE=" + quoted(state.string()) +
                     " PATH=" + quoted(tools.string()) + ":\"$PATH\"; " + more + ' ' + command +
                     " >>'" + state.string() + "/said' 2>&1",
                 directory);
  }
  std::string log() const { return read_file(state / "log"); }
  std::string output(int step) const {
    return read_file(state / ("halomesh." + std::to_string(step) + ".out"));
  }
};

/// Two nodes of Fugaku with two ranks each.
Arguments small_job(const ScriptJob& job, const std::string& time) {
  std::ofstream(job.directory / "job.cfg") << "momentum = 0.8\n";
  return {{"site", "fugaku"},
          {"nodes", "2"},
          {"ranks-per-node", "2"},
          {"threads", "1"},
          {"time", time},
          {"volumes", "/vol0004:/vol0003"},
          {"account", "hp000000"},
          {"jobs", "3"},
          {"config", (job.directory / "job.cfg").string()},
          {"rank-map", (job.directory / "map").string()}};
}

}  // namespace

TEST_CASE("a chain of PJM jobs continues until the training is done") {
  ScriptJob job;
  const Pjm pjm;
  // 180 s of the time are the site's margin for a clean end.
  job.scene.options["steps"] = kEndless;
  const fs::path endless = job.make("endless.sh", small_job(job, "00:03:02"));
  REQUIRE(pjm.run("bash " + quoted(endless.string()) + " submit", job.directory) == 0);
  CAPTURE(pjm.log());
  CAPTURE(pjm.output(0));
  for (const int step : {0, 1, 2}) {
    CAPTURE(step);
    CHECK(pjm.log().find("step " + std::to_string(step) + " ended with 75\n") != std::string::npos);
    CHECK(pjm.output(step).find("stopped cleanly") != std::string::npos);
    CHECK((pjm.output(step).find("resuming from") != std::string::npos) == (step > 0));
  }
  CHECK(lines_starting(pjm.log(),
                       "accepted: 2 nodes 4 ranks 2 a node, 182 s, "
                       "PJM_LLIO_GFSCACHE=/vol0004:/vol0003") == 3);
  CHECK(lines_starting(pjm.log(), "transferred job.cfg") == 3);
  CHECK(lines_starting(pjm.log(), "purged job.cfg") == 3);
  REQUIRE(job.last_step() > 2);

  const Pjm later;
  job.scene.options["steps"] = std::to_string(job.last_step() + 20);
  const fs::path rest = job.make("rest.sh", small_job(job, "00:10:00"));
  REQUIRE(later.run("bash " + quoted(rest.string()) + " submit", job.directory) == 0);
  CAPTURE(later.log());
  CAPTURE(later.output(0));
  CHECK(later.log().find("step 0 ended with 0\n") != std::string::npos);
  CHECK(later.log().find("step 1 deleted\nstep 2 deleted\n") != std::string::npos);
  CHECK(later.output(0).find("the training is done") != std::string::npos);
  CHECK(std::to_string(job.last_step()) == job.scene.options["steps"]);
}

TEST_CASE("a chain ends at an error that would only repeat") {
  ScriptJob job;
  const Pjm pjm;
  const fs::path script = job.make("job.sh", small_job(job, "00:10:00"));
  fs::rename(job.scene.data, job.scene.data.string() + "-gone");
  REQUIRE(pjm.run("bash " + quoted(script.string()) + " submit", job.directory) == 0);
  fs::rename(job.scene.data.string() + "-gone", job.scene.data);
  CAPTURE(pjm.log());
  CHECK(pjm.log().find("step 0 ended with 1\n") != std::string::npos);
  CHECK(pjm.log().find("step 1 deleted\nstep 2 deleted\n") != std::string::npos);
}

TEST_CASE("PJM accepts the directives of every site, and nothing runs outside a job") {
  ScriptJob job;
  int compared = 0;
  for (const char* site : {"fugaku", "wisteria-o", "flow", "generic-pjm"}) {
    for (const char* nodes : {"12", "96"}) {
      CAPTURE(site);
      CAPTURE(nodes);
      const Pjm pjm;
      Arguments options = {{"site", site},
                           {"nodes", nodes},
                           {"time", "01:00:00"},
                           {"rank-map", (job.directory / "map").string()}};
      if (std::string(site) == "generic-pjm") options["queue"] = "q";
      job.scene.options["batch"] = "384";
      const std::string script = quoted(job.make("job.sh", options).string());
      CHECK(pjm.run("pjsub -g group " + script, job.directory, "PJM_STUB_CHECK_ONLY=1") == 0);
      CHECK(pjm.run("pjsub " + script, job.directory, "PJM_STUB_CHECK_ONLY=1") == 1);
      CHECK(pjm.run("bash " + script, job.directory) == 2);
      ++compared;
    }
  }
  CHECK(compared == 8);
}

}  // namespace halomesh::test
