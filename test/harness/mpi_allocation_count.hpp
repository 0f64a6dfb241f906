// How often the program itself, not a library, has asked for memory.
// Knows nothing of what asks.
#pragma once

#include <cstdint>

namespace halomesh::test {

/// Calls of operator new so far, on all threads, from code of this executable: libraries, which
/// allocate as they like, are not counted. -1 in builds whose sanitizer owns operator new.
std::int64_t allocation_count();

}  // namespace halomesh::test
