// SPDX-License-Identifier: Apache-2.0
// Counts the reads of samples from files, for the reports of a run.
#pragma once

#include <chrono>
#include <cstdint>

namespace halomesh {

/// Reads of samples from files, without the indexing of data sets.
struct ReadCounts {
  std::int64_t bytes = 0;  ///< as stored (compressed bytes of compressed files)
  std::int64_t calls = 0;  ///< calls of the system or of a library
  std::int64_t ns = 0;     ///< time in these calls, including inflation if the library inflates

  double seconds() const { return static_cast<double>(ns) * 1e-9; }
  ReadCounts& operator+=(const ReadCounts& other) {
    bytes += other.bytes;
    calls += other.calls;
    ns += other.ns;
    return *this;
  }
  friend ReadCounts operator-(const ReadCounts& a, const ReadCounts& b) {
    return {a.bytes - b.bytes, a.calls - b.calls, a.ns - b.ns};
  }
};

/// The counts of all threads of this process so far. Thread-safe.
ReadCounts read_counts();
/// The counts of the calling thread so far.
ReadCounts read_counts_of_thread();

/// Times one read call, from its construction to count(). For readers, in any thread.
class CountedRead {
 public:
  /// Adds the call and the bytes that it read to the counts.
  void count(std::int64_t bytes) const;

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace halomesh
