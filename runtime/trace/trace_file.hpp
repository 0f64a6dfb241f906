// SPDX-License-Identifier: Apache-2.0
// A JSON file that the traced ranks of a run write together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// Writes `file`, as one gzip member if its name ends in .gz: rank 0's `opening` text, the `text`
/// of each rank in rank order, and a last line `]}`. Ranks with an empty text write nothing,
/// however many they are. Each rank compresses its own text and writes it at its own place with
/// pwrite(): the pieces do not overlap, are small and are written once, so neither the locks of
/// MPI-IO nor its aggregation would help. The file gets its name when it is complete. Returns its
/// size in bytes on every rank. If it cannot be written, throws one Error on every rank and leaves
/// an older file of that name unchanged. Collective over `world`.
std::int64_t write_trace_file(const Comm& world, const std::filesystem::path& file,
                              const std::string& opening, const std::string& text);

}  // namespace halomesh
