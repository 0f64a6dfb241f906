// SPDX-License-Identifier: Apache-2.0
// Generated job scripts on a real Slurm cluster: every launcher, dead ranks and nodes; minutes.
#include "test/harness/skip.hpp"
#include "test/system/slurm_job.hpp"

namespace halomesh::test {
namespace {

/// A job that is in the middle of its 600 steps.
std::string reach_the_middle(const SlurmCluster& slurm, const ScriptJob& job,
                             const Arguments& options) {
  const std::string number = slurm.submit(job.make("job.sh", options));
  const bool trains = has_trained(job, 30);
  CAPTURE(log_of(job, number));
  REQUIRE(trains);
  return number;
}

}  // namespace

TEST_SUITE_BEGIN("slurm" * doctest::skip(!slurm_is_possible()));

TEST_CASE("Open MPI's mpirun in a job that hits its limit ends with the uninterrupted curve") {
  const SlurmCluster slurm;
  check_hits_its_limit(slurm, {{"launcher", "mpirun"}});
}

TEST_CASE("a rank killed under Slurm ends the job within seconds, and the next job resumes") {
  const SlurmCluster slurm;
  for (const char* launcher : {"srun", "mpirun"}) {
    CAPTURE(launcher);
    const ScriptJob job = job_of_steps("600");
    Arguments options = two_nodes(job, 60);
    options["launcher"] = launcher;
    const std::string number = reach_the_middle(slurm, job, options);
    const auto ranks = slurm.ranks(number);
    REQUIRE(ranks.size() == 4);
    REQUIRE(::kill(ranks.at(2), SIGKILL) == 0);
    CHECK(wait_until(10, [&] { return slurm.job(number).restarts == 1; }));
    check_ends_well(slurm, job, number);
  }
}

TEST_CASE("the job of a node that goes down returns to the queue") {
  const SlurmCluster slurm;
  const ScriptJob job = job_of_steps("600");
  const std::string number = reach_the_middle(slurm, job, two_nodes(job, 60));
  const std::string list = slurm.say("squeue -h -o %N -j " + number);
  REQUIRE(list.starts_with("n["));
  const std::string node = "n" + list.substr(2, 1);
  slurm.say("scontrol update State=DOWN Reason=test NodeName=" + node);
  CHECK(wait_until(10, [&] { return slurm.job(number).restarts == 1; }));
  check_ends_well(slurm, job, number);
  CHECK(log_of(job, number).find("DUE TO NODE FAILURE") != std::string::npos);
}

TEST_CASE("MPICH's ranks by srun --mpi=pmi2 end with the uninterrupted curve") {
  const std::string program = environment("HALOMESH_MPICH", "");
  if (!fs::exists(program))
    return skip_case("HALOMESH_MPICH does not name a program built with MPICH");
  const SlurmCluster slurm;
  check_hits_its_limit(slurm, {{"mpi-plugin", "pmi2"}, {"program", program}});
}

TEST_SUITE_END();

}  // namespace halomesh::test
