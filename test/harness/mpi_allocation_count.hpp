// SPDX-License-Identifier: Apache-2.0
// Counts the allocations and bytes of the program itself, without libraries.
#pragma once

#include <cstdint>

namespace halomesh::test {

/// Calls of operator new so far, on all threads, from code of this executable: libraries, are not
/// counted. -1 in builds whose sanitizer owns operator new.
std::int64_t allocation_count();

/// Bytes from operator new that have not been given back, and the most there have been since the
/// last call of reset_peak_bytes(). What libraries take from malloc is not among them. -1 as above.
std::int64_t live_bytes();
std::int64_t peak_bytes();
void reset_peak_bytes();

}  // namespace halomesh::test
