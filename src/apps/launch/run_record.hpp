// SPDX-License-Identifier: Apache-2.0
// The file run.json, which a run writes besides its metrics.
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

/// Finds where this rank runs and sets its number of OpenMP threads. Rank 0 warns on standard error
/// about problems with the binding of any rank. Collective over `world`.
RankBinding bind_threads(const Comm& world);

/// Warns on rank 0 about each of the `implementations` (see Executor) for which oneDNN has silently
/// fallen back to reference code, which is a hundred times slower. Local.
void warn_of_slow_kernels(const Comm& world, const std::vector<std::string>& implementations);

/// The record of a run: program, versions, options, machine and the binding of every rank.
/// Collective.
nlohmann::ordered_json program_record(const Comm& world, const RankBinding& binding,
                                      const Options& options);

/// Writes `record` to `file` on rank 0; if it cannot, throws one Error on every rank. Collective
/// over `world`.
void write_record(const Comm& world, const std::filesystem::path& file,
                  const nlohmann::ordered_json& record);

}  // namespace halomesh
