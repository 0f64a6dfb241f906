// SPDX-License-Identifier: Apache-2.0
// How OpenMP threads wait: see waiting.hpp.
#include "src/apps/launch/waiting.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace halomesh {
namespace {

/// The number at the start of a variable, such as 4 of "4(x2),3"; 0 without one.
std::int64_t first_number(const Variable& variable, const char* name) {
  const char* const text = variable(name);
  const std::string_view word = text == nullptr ? "" : text;
  std::int64_t value = 0;
  std::from_chars(word.data(), word.data() + word.size(), value);
  return value;
}

std::int64_t ranks_on_node(const Variable& variable) {
  for (const char* name :
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"})
    if (const std::int64_t ranks = first_number(variable, name); ranks > 0) return ranks;
  return 1;
}

}  // namespace

bool should_wait_passively(const Variable& variable, std::int64_t processors) {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"})
    if (variable(name) != nullptr) return false;
  const std::int64_t threads = first_number(variable, "OMP_NUM_THREADS");
  // A rank alone does so by itself.
  const std::int64_t ranks = ranks_on_node(variable);
  return threads > 1 && ranks > 1 && threads * ranks > processors;
}

void wait_passively_where_crowded(char** argv) {
  const auto variable = [](const char* name) {
    return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no threads yet
  };
  if (!should_wait_passively(variable, ::sysconf(_SC_NPROCESSORS_ONLN))) return;
  ::setenv("OMP_WAIT_POLICY", "passive", 1);  // NOLINT(concurrency-mt-unsafe)
  // Returns only if it fails; then the run is slower, but right.
  ::execv("/proc/self/exe", argv);
}

}  // namespace halomesh
