// SPDX-License-Identifier: Apache-2.0
// Generated job scripts on a real Slurm cluster, the quick cases; test/long has the others.
#include "test/system/slurm_job.hpp"

namespace halomesh::test {

TEST_SUITE_BEGIN("slurm" * doctest::skip(!slurm_is_possible()));

TEST_CASE("a job that hits its limit is requeued and ends with the uninterrupted curve") {
  const SlurmCluster slurm;
  check_hits_its_limit(slurm, {{"launcher", "srun"}});
}

TEST_CASE("the shapes and burst buffers of whole machines pass Slurm's own check") {
  const SlurmCluster slurm("machines");
  ScriptJob job = job_of_steps("3");
  job.scene.options["parts"] = "4x4x1";
  job.scene.options["batch"] = "1536";
  const auto tested = [&](const Arguments& options, const std::string& edit = "") {
    const fs::path script = job.make("job.sh", options);
    // Root may not ask for a burst buffer.
    return slurm.say("sed " + quoted(edit) + " < " + quoted(script.string()) +
                     " | setpriv --reuid=65534 --clear-groups sbatch --test-only");
  };
  const auto says = [](const std::string& said, const std::string& wanted) {
    CAPTURE(said);
    CHECK(said.find(wanted) != std::string::npos);
  };
  const Arguments perlmutter = {
      {"site", "perlmutter-cpu"}, {"nodes", "3072"}, {"time", "24:00:00"}, {"account", "m1"}};
  says(tested(perlmutter), "using 786432 processors on nodes cpu[0001-3072]");
  says(tested(perlmutter, "s/--nodes=3072/--nodes=3073/"), "not available");
  job.scene.options["batch"] = "512";
  Arguments cori = {{"site", "cori-knl"}, {"nodes", "8192"}, {"time", "24:00:00"}};
  says(tested(cori), "using 2228224 processors on nodes nid[00001-08192]");
  says(tested(cori, "s/knl,quad,cache/knl,flat/"), "Invalid feature");
  cori["stage-gib"] = "4";
  says(tested(cori), "on nodes nid[00001-08192]");
  says(tested(cori, "s/capacity=/capacty=/"), "Burst Buffer request invalid");
}

TEST_SUITE_END();

}  // namespace halomesh::test
