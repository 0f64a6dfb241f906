// SPDX-License-Identifier: Apache-2.0
// The speed of sums over ranks: the program's own algorithms beside those of the MPI library.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "runtime/mpi/process_mesh.hpp"

namespace halomesh {

/// The times of several tries, in seconds, until the last rank has the sum.
struct SumSpeed {
  std::int64_t bytes = 0;
  std::string way;  ///< the name of a Reduction, or an MPI call
  bool own = true;  ///< a sum by the program's own messages
  double median_s = 0, min_s = 0, max_s = 0;
};

/// Times sums of `sizes` bytes (whole floats) over all ranks in every way. Each of `tries` tries,
/// and one that is not counted, runs all ways in turn. "auto" is the sum of training: buckets of 4
/// MiB, all in flight, here on idle ranks. Collective over mesh.world().
std::vector<SumSpeed> measure_sums(const ProcessMesh& mesh, std::span<const std::int64_t> sizes,
                                   int tries);

/// Prints milliseconds, and the ratio of each way to the fastest of MPI's.
void print_sums(std::ostream& out, const std::vector<SumSpeed>& sums);
nlohmann::ordered_json sums_json(const std::vector<SumSpeed>& sums, int ranks);

}  // namespace halomesh
