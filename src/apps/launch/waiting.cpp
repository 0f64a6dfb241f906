// SPDX-License-Identifier: Apache-2.0
// How threads and ranks wait: see waiting.hpp.
#include "src/apps/launch/waiting.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <system_error>

#include "simulation.hpp"

namespace halomesh {
namespace {

/// The number at the start of a variable, such as 4 in "4(x2),3"; 0 without one.
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

bool any_is_set(const Variable& variable, const std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return variable(name) != nullptr; });
}

}  // namespace

std::map<std::string, std::string> waiting_settings(const Variable& variable,
                                                    std::int64_t processors) {
  std::map<std::string, std::string> settings;
  if (waits_actively(variable)) return settings;
  constexpr const char* kYield = "OMPI_MCA_mpi_yield_when_idle";
  if (!any_is_set(variable, {kYield})) settings[kYield] = "1";
  const std::int64_t threads = first_number(variable, "OMP_NUM_THREADS");
  if (threads == 1 || any_is_set(variable, {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}))
    return settings;
  if (const std::int64_t ranks = ranks_on_node(variable);
      ranks > 1 && threads * ranks > processors) {
    settings["OMP_WAIT_POLICY"] = "passive";
  } else {
    settings["GOMP_SPINCOUNT"] = "1000";  // iterations of some 20 to 50 ns
    settings["KMP_BLOCKTIME"] = "0";      // ms
  }
  return settings;
}

void wait_considerately(char** argv) {
  if constexpr (simulation::kOn) return;  // ranks are threads of one process that take turns
  const auto variable = [](const char* name) {
    return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no threads yet
  };
  const auto settings = waiting_settings(variable, ::sysconf(_SC_NPROCESSORS_ONLN));
  bool of_threads = false;
  for (const auto& [name, value] : settings) {
    ::setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    of_threads = of_threads || !name.starts_with("OMPI_");
  }
  if (!of_threads) return;
  // The program is started by its path, so that it keeps its name. execv() returns only if it
  // fails; the run is then slower, but correct.
  std::error_code unknown;
  ::execv(std::filesystem::read_symlink("/proc/self/exe", unknown).c_str(), argv);
}

}  // namespace halomesh
