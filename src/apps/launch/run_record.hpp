// SPDX-License-Identifier: Apache-2.0
// What a run writes besides its metrics: run.json.
// Must not depend on training.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/machine/binding.hpp"
#include "runtime/mpi/mpi.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// Where this rank runs; sets its number of OpenMP threads. Rank 0 warns on standard error about
/// problems with the binding of any rank. Collective over `world`.
RankBinding bind_threads(const Comm& world);

/// Where oneDNN has silently fallen back to reference code, which is a hundred times slower, rank 0
/// prints a warning for each of its `implementations` (see Executor). Local.
void warn_of_slow_kernels(const Comm& world, const std::vector<std::string>& implementations);

/// What ran: program, versions, options, machine and the binding of every rank. Collective.
nlohmann::ordered_json program_record(const Comm& world, const RankBinding& binding,
                                      const Options& options);

/// Rank 0 writes `record` to `file`; throws the same Error on every rank when it cannot.
/// Collective over `world`.
void write_record(const Comm& world, const std::filesystem::path& file,
                  const nlohmann::ordered_json& record);

}  // namespace halomesh
