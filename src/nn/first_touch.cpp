// SPDX-License-Identifier: Apache-2.0
// Clearing by all threads: see first_touch.hpp.
#include "src/nn/first_touch.hpp"

#include <omp.h>

#include <algorithm>
#include <cstring>

namespace halomesh {

void clear_by_threads(void* memory, std::size_t bytes) {
  constexpr std::size_t kPage = 4096, kWorthThreads = std::size_t{1} << 20U;
  if (bytes == 0) return;  // memory may then be null, which memset() does not accept
  auto* const begin = static_cast<std::byte*>(memory);
#pragma omp parallel if (bytes >= kWorthThreads)
  {
    const auto threads = static_cast<std::size_t>(omp_get_num_threads());
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    const std::size_t pages = (bytes + kPage - 1) / kPage;
    const std::size_t from = std::min(bytes, thread * pages / threads * kPage);
    const std::size_t to = std::min(bytes, (thread + 1) * pages / threads * kPage);
    std::memset(begin + from, 0, to - from);
  }
}

}  // namespace halomesh
