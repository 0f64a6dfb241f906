// SPDX-License-Identifier: Apache-2.0
// When threads wait passively, from given environments.
#include "src/apps/launch/waiting.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

namespace halomesh {
namespace {

using Environment = std::map<std::string, std::string>;

bool passive(const Environment& environment, std::int64_t processors) {
  return should_wait_passively(
      [&](const char* name) {
        const auto entry = environment.find(name);
        return entry == environment.end() ? nullptr : entry->second.c_str();
      },
      processors);
}

Environment with(Environment environment, const char* name, const char* value) {
  environment[name] = value;
  return environment;
}

}  // namespace

TEST_CASE("threads wait passively where a node has fewer processors") {
  const Environment four_of_two = {{"OMP_NUM_THREADS", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
  CHECK(passive(four_of_two, 2));
  CHECK(passive(four_of_two, 7));
  CHECK_FALSE(passive(four_of_two, 8));
  CHECK(passive({{"OMP_NUM_THREADS", "2,4"}, {"MPI_LOCALNRANKS", "4"}}, 7));
  CHECK(passive({{"OMP_NUM_THREADS", "12"}, {"SLURM_STEP_TASKS_PER_NODE", "5(x3),4"}}, 48));
  CHECK_FALSE(passive({{"OMP_NUM_THREADS", "12"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x3)"}}, 48));
}

TEST_CASE("one thread per rank, or a rank alone, waits as its library does") {
  CHECK_FALSE(passive({{"OMPI_COMM_WORLD_LOCAL_SIZE", "16"}}, 2));
  CHECK_FALSE(passive({{"OMP_NUM_THREADS", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "16"}}, 2));
  CHECK_FALSE(passive({{"OMP_NUM_THREADS", "8"}}, 2));
  CHECK_FALSE(passive({{"OMP_NUM_THREADS", "8"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}, 2));
  CHECK_FALSE(passive({{"OMP_NUM_THREADS", "many"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}, 2));
}

TEST_CASE("what the user has set about waiting stays") {
  const Environment crowded = {{"OMP_NUM_THREADS", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
  REQUIRE(passive(crowded, 2));
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"})
    CHECK_FALSE(passive(with(crowded, name, "1000"), 2));
}

}  // namespace halomesh
