// How many bytes of samples this process has read from files: what a run's report tells.
// Knows nothing of who read them.
#pragma once

#include <cstdint>

namespace halomesh {

/// Bytes that readers of samples have taken from files so far, as they lie there (compressed files
/// count compressed); indexing a data set is not counted. May be called by any thread.
std::int64_t read_bytes();

/// For readers: adds to read_bytes().
void count_read_bytes(std::int64_t bytes);

}  // namespace halomesh
