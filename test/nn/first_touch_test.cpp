// SPDX-License-Identifier: Apache-2.0
// Every byte of a block is cleared and no other, for any size and number of threads. The sanitizers
// see the last case.
#include "src/nn/first_touch.hpp"

#include <doctest/doctest.h>
#include <omp.h>

#include <algorithm>
#include <vector>

namespace halomesh {
namespace {

TEST_CASE("a whole block is cleared and nothing else") {
  const int before = omp_get_max_threads();
  for (const int threads : {1, 3}) {
    omp_set_num_threads(threads);
    for (const std::size_t bytes :
         {std::size_t{1}, std::size_t{4097}, (std::size_t{1} << 20U) + 13, std::size_t{3} << 20U}) {
      std::vector<char> memory(bytes + 2, 'x');
      clear_by_threads(memory.data() + 1, bytes);
      CHECK(memory.front() == 'x');
      CHECK(memory.back() == 'x');
      CHECK(std::all_of(memory.begin() + 1, memory.end() - 1, [](char c) { return c == 0; }));
    }
  }
  omp_set_num_threads(before);
}

TEST_CASE("a block of no bytes may be null") { clear_by_threads(nullptr, 0); }

}  // namespace
}  // namespace halomesh
