// SPDX-License-Identifier: Apache-2.0
// Counts what this process hands to MPI, beneath the code under test: the test program's own
// MPI_Send_init, MPI_Startall, MPI_Isend and MPI_Iallreduce call those of the library's profiling
// interface.
// It can also hold messages back.
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

/// While it lives, persistent sends do not begin when they are started but when this process next
/// tests or waits for any requests: they send what their memory holds then.
class LateSends {
 public:
  LateSends();
  ~LateSends();
  LateSends(const LateSends&) = delete;
  LateSends& operator=(const LateSends&) = delete;
  /// How many sends have been held back so far.
  std::int64_t held() const;
};

}  // namespace halomesh
