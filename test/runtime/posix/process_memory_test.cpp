// SPDX-License-Identifier: Apache-2.0
// The peak memory of a process.
#include "runtime/posix/process_memory.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstring>

namespace halomesh {

TEST_CASE("peak memory follows what a process touches") {
  constexpr std::int64_t kBytes = 64 << 20;
  const bool can_reset = reset_peak_memory();
  const std::int64_t before = peak_memory_bytes();
  {
    const std::int64_t resident = resident_memory_bytes();
    // Mapped by itself: sanitizers keep what an allocator would give back.
    void* const touched =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(touched != MAP_FAILED);
    std::memset(touched, 1, kBytes);
    CHECK(resident_memory_bytes() > resident + kBytes / 2);
    REQUIRE(munmap(touched, kBytes) == 0);
  }
  const std::int64_t after = peak_memory_bytes();
  CHECK(after >= before);
  if (!can_reset) return;
  CHECK(after - before > kBytes / 2);
  CHECK(after - before < 2 * kBytes);
  REQUIRE(reset_peak_memory());
  CHECK(peak_memory_bytes() < after - kBytes / 2);
}

}  // namespace halomesh
