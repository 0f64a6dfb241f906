// SPDX-License-Identifier: Apache-2.0
// How fast ranks sum a buffer: the program's own sums beside those of the MPI library.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "runtime/mpi/process_mesh.hpp"

namespace halomesh {

/// Seconds until the last rank has the sum, of several tries.
struct SumSpeed {
  std::int64_t bytes = 0;
  std::string way;  ///< name of a Reduction, or an MPI call
  bool own = true;  ///< by messages of our own
  double median_s = 0, min_s = 0, max_s = 0;
};

/// For each of `sizes` (bytes, whole floats) sums over all ranks in every way, the ways in turn in
/// each of `tries` tries, after one that is not counted. "auto" is what training does: buckets of 4
/// MiB, all in flight. On idle ranks. Collective over mesh.world().
std::vector<SumSpeed> measure_sums(const ProcessMesh& mesh, std::span<const std::int64_t> sizes,
                                   int tries);

/// A table of milliseconds, and of each way's ratio to the fastest of MPI's.
void print_sums(std::ostream& out, const std::vector<SumSpeed>& sums);
nlohmann::ordered_json sums_json(const std::vector<SumSpeed>& sums, int ranks);

}  // namespace halomesh
