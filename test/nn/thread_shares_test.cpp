// SPDX-License-Identifier: Apache-2.0
// How evenly threads share loops, against counts by hand.
#include "src/nn/kernels/thread_shares.hpp"

#include <doctest/doctest.h>

#include "src/nn/kernels/sparse_tile.hpp"

namespace halomesh {
namespace {

constexpr Spatial kTwo{2, 2, 2}, kThree{3, 3, 3};

double busiest(const std::vector<ThreadShare>& shares, const std::string& loop) {
  for (const ThreadShare& s : shares)
    if (s.loop == loop) return s.busiest;
  FAIL("no loop " << loop);
  return 0;
}

}  // namespace

TEST_CASE("one thread does all work, and no thread more than all") {
  std::int64_t compared = 0;
  for (const Spatial& kernel : {kTwo, kThree})
    for (const std::int64_t ci : {4, 32, 128})
      for (const Spatial& pooled : {Spatial{1, 1, 1}, Spatial{2, 3, 8}, Spatial{16, 16, 64}})
        for (const int threads : {1, 2, 7, 12, 48})
          for (const ThreadShare& s : thread_shares({ci, 64, kernel, kTwo}, pooled, threads)) {
            CAPTURE(s.loop);
            CHECK(s.units > 0);
            CHECK(s.busiest >= (threads == 1 ? 1 : 0.999));
            CHECK(s.busiest <= threads * 1.001);
            ++compared;
          }
  CHECK(compared > 100);
  CHECK(thread_shares({32, 64, kTwo, kTwo}, {0, 4, 4}, 12).empty());
}

// One part of 4x4x1 of CosmoFlow at 128^3: see `plan --parts 4x4x1 --threads 12`.
TEST_CASE("twelve threads share the loops of a small part as counted by hand") {
  const auto first = thread_shares({4, 32, kTwo, kTwo}, {16, 16, 64}, 12);
  CHECK(busiest(first, "forward") == doctest::Approx(22 * 12 / 256.0));
  // 8 planes x 2 vectors of channels: nobody can have less than 2 of 16.
  if (sparse::kVector == 16) {
    const auto second = thread_shares({32, 64, kTwo, kTwo}, {8, 8, 32}, 12);
    CHECK(second.at(1).units == 16);
    CHECK(busiest(second, "data gradient") == doctest::Approx(1.5));
  }
  CHECK(busiest(thread_shares({32, 64, kTwo, kTwo}, {8, 8, 32}, 12), "pooling") ==
        doctest::Approx(6 * 12 / 64.0));
  // 64 tiles of 2x4x4, 2 x 4 blocks of channels: all threads have work, none twice the mean.
  CHECK(busiest(thread_shares({32, 64, kTwo, kTwo}, {8, 8, 32}, 12), "weight gradient") < 1.2);
}

}  // namespace halomesh
