// SPDX-License-Identifier: Apache-2.0
// How failures are reported, and what launchers say about themselves.
#include "src/apps/launch/parallel.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <new>
#include <string>

namespace halomesh {
namespace {

template <class Exception>
Failure failure_of(const Exception& exception, int rank) {
  return describe(std::make_exception_ptr(exception), rank);
}

TEST_CASE("failures name what, the hint and the rank, and choose the exit code") {
  const Failure usage = failure_of(UsageError("bad", "do good"), 0);
  CHECK(usage.text == "halomesh: error: bad\n  hint: do good\n");
  CHECK(usage.exit_code == kExitUsage);
  const Failure failed = failure_of(Error("broken"), 3);
  CHECK(failed.text == "halomesh: error (rank 3): broken\n");
  CHECK(failed.exit_code == kExitFailed);
  const Failure memory = failure_of(std::bad_alloc(), 1);
  CHECK(memory.text.find("(rank 1): not enough memory\n  hint: cut") != std::string::npos);
  CHECK(memory.exit_code == kExitFailed);
  CHECK(failure_of(std::runtime_error("odd"), 0).text == "halomesh: error: odd\n");
  CHECK(failure_of(std::filesystem::filesystem_error(
                       "x", "/a/b", std::make_error_code(std::errc::permission_denied)),
                   0)
            .text.find("/a/b: Permission denied\n  hint: ") != std::string::npos);
  CHECK(failure_of(42, 0).exit_code == kExitFailed);
}

TEST_CASE("a launcher's own variables take precedence over those of the surrounding job") {
  using Environment = std::map<std::string, std::string>;
  struct Row {
    Environment environment;
    std::int64_t size, rank;
  };
  const std::vector<Row> rows = {
      {{}, 0, 0},
      {{{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "2"}}, 4, 2},
      {{{"PMI_SIZE", "8"}, {"PMI_RANK", "7"}}, 8, 7},
      {{{"SLURM_STEP_NUM_TASKS", "16"}, {"SLURM_PROCID", "3"}}, 16, 3},
      // A batch script of a job of 16 tasks is one process.
      {{{"SLURM_NTASKS", "16"}, {"SLURM_PROCID", "0"}}, 0, 0},
      // mpirun -n 1 within a step of 16.
      {{{"OMPI_COMM_WORLD_SIZE", "1"},
        {"OMPI_COMM_WORLD_RANK", "0"},
        {"SLURM_STEP_NUM_TASKS", "16"},
        {"SLURM_PROCID", "0"}},
       1,
       0},
      {{{"PMI_SIZE", "many"}, {"PMI_RANK", "0"}}, 0, 0},
  };
  for (const Row& row : rows) {
    const Launch launch = read_launch([&](const char* name) -> const char* {
      const auto found = row.environment.find(name);
      return found == row.environment.end() ? nullptr : found->second.c_str();
    });
    CHECK(launch.size == row.size);
    CHECK(launch.rank == row.rank);
  }
  CHECK(rows.size() == 7);
}

}  // namespace
}  // namespace halomesh
