// SPDX-License-Identifier: Apache-2.0
// How threads and ranks wait, from given environments.
#include "src/apps/launch/waiting.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

namespace halomesh {
namespace {

using Environment = std::map<std::string, std::string>;

Environment with(Environment environment, const char* name, const char* value) {
  environment[name] = value;
  return environment;
}

using Settings = std::map<std::string, std::string>;

Settings settings_of(const Environment& environment, std::int64_t processors) {
  return waiting_settings(
      [&](const char* name) {
        const auto entry = environment.find(name);
        return entry == environment.end() ? nullptr : entry->second.c_str();
      },
      processors);
}

bool passive(const Environment& environment, std::int64_t processors) {
  const Settings settings = settings_of(environment, processors);
  return settings.contains("OMP_WAIT_POLICY") && settings.at("OMP_WAIT_POLICY") == "passive";
}

const Settings kYields = {{"OMPI_MCA_mpi_yield_when_idle", "1"}};
const Settings kSleeps = {
    {"OMPI_MCA_mpi_yield_when_idle", "1"}, {"GOMP_SPINCOUNT", "1000"}, {"KMP_BLOCKTIME", "0"}};

}  // namespace

TEST_CASE("what waits leaves its processors to others after some ten microseconds") {
  CHECK(settings_of({}, 2) == kSleeps);
  CHECK(settings_of({{"OMP_NUM_THREADS", "8"}}, 8) == kSleeps);
  CHECK(settings_of({{"OMPI_COMM_WORLD_LOCAL_SIZE", "16"}}, 2) == kSleeps);
  CHECK(settings_of({{"OMP_NUM_THREADS", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "16"}}, 2) ==
        kYields);
}

TEST_CASE("threads wait passively where a node has fewer processors") {
  const Environment four_of_two = {{"OMP_NUM_THREADS", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
  CHECK(passive(four_of_two, 2));
  CHECK(passive(four_of_two, 7));
  CHECK_FALSE(passive(four_of_two, 8));
  CHECK(passive({{"OMP_NUM_THREADS", "2,4"}, {"MPI_LOCALNRANKS", "4"}}, 7));
  CHECK(passive({{"OMP_NUM_THREADS", "12"}, {"SLURM_STEP_TASKS_PER_NODE", "5(x3),4"}}, 48));
  CHECK_FALSE(passive({{"OMP_NUM_THREADS", "12"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x3)"}}, 48));
  CHECK_FALSE(passive({{"OMP_NUM_THREADS", "many"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}, 2));
}

TEST_CASE("what the user has set about waiting stays") {
  const Environment crowded = {{"OMP_NUM_THREADS", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
  for (const Environment& plain : {crowded, Environment{}}) {
    for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"})
      CHECK(settings_of(with(plain, name, "1000"), 2) == kYields);
    CHECK(settings_of(with(plain, "OMP_WAIT_POLICY", " Active"), 2).empty());
    CHECK_FALSE(settings_of(with(plain, "OMPI_MCA_mpi_yield_when_idle", "0"), 2)
                    .contains("OMPI_MCA_mpi_yield_when_idle"));
  }
}

}  // namespace halomesh
