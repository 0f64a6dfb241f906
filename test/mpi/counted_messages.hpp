// SPDX-License-Identifier: Apache-2.0
// Counts what this process hands to MPI, beneath the code under test: the test program's own
// MPI_Send_init, MPI_Startall, MPI_Isend and MPI_Iallreduce call those of the library's profiling
// interface.
#pragma once

#include <cstdint>

namespace halomesh {

struct CountedMessages {
  std::int64_t sends = 0, sent_bytes = 0;   ///< started persistent sends
  std::int64_t sums = 0, summed_bytes = 0;  ///< contributed to non-blocking all-reduces
  std::int64_t float_bytes = 0;             ///< sent as floats by plain non-blocking sends
};

/// Since the program's start.
const CountedMessages& counted_messages();

}  // namespace halomesh
