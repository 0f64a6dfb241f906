// SPDX-License-Identifier: Apache-2.0
// Counts the allocations and bytes of the program itself, without libraries.
#pragma once

#include <cstdint>

namespace halomesh::test {

/// The number of calls of operator new so far, on all threads, from code of this executable,
/// without libraries. -1 in builds whose sanitizer replaces operator new.
std::int64_t allocation_count();

/// The bytes from operator new in use, and their peak since the last call of reset_peak_bytes().
/// Memory that libraries take from malloc does not count. -1 as above.
std::int64_t live_bytes();
std::int64_t peak_bytes();
void reset_peak_bytes();

}  // namespace halomesh::test
