// SPDX-License-Identifier: Apache-2.0
// The counter of bytes read: see read_bytes.hpp.
#include "runtime/posix/read_bytes.hpp"

#include <atomic>

namespace halomesh {
namespace {

// One per process: readers run in several threads and belong to different owners.
std::atomic<std::int64_t>& counter() {
  static std::atomic<std::int64_t> count = 0;
  return count;
}

}  // namespace

std::int64_t read_bytes() { return counter(); }

void count_read_bytes(std::int64_t bytes) { counter() += bytes; }

}  // namespace halomesh
