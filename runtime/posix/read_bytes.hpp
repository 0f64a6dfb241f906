// SPDX-License-Identifier: Apache-2.0
// Counts the bytes of samples that this process reads from files, for the report of a run.
#pragma once

#include <cstdint>

namespace halomesh {

/// Bytes of samples read from files so far, as stored (compressed files count compressed), without
/// the indexing of data sets. Thread-safe.
std::int64_t read_bytes();

/// Adds to read_bytes(); called by readers. Thread-safe.
void count_read_bytes(std::int64_t bytes);

}  // namespace halomesh
