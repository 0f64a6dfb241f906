// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: the published known answers, and the addressing on top of them.
#include "rng.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace halomesh {
namespace {

struct KnownAnswer {
  std::array<std::uint32_t, 4> counter;
  std::array<std::uint32_t, 2> key;
  std::array<std::uint32_t, 4> result;
};

// The lines "philox4x32 10" of the file kat_vectors of Random123, the library of the paper's
// authors (github.com/DEShawResearch/random123, tests/kat_vectors).
const std::vector<KnownAnswer> kKnown = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST_CASE("Philox4x32-10 gives the published known answers") {
  int compared = 0;
  for (const KnownAnswer& k : kKnown)
    for (std::size_t i = 0; i < 4; ++i, ++compared)
      CHECK(philox4x32(k.counter, k.key)[i] == k.result[i]);
  CHECK(compared == 12);
}

TEST_CASE("the counter is (index, stream, use and substream) and the key is the seed") {
  const std::uint64_t seed = 0x299f31d0a4093822u, index = 0x85a308d3243f6a88u;
  const CounterRng rng(seed, RandomUse::kOrder, 0x13198a2e, 0x00707344);
  CHECK(rng.block(index) ==
        philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}));
  CHECK(rng.block(index)[0] == 0xd16cfe09);
}

TEST_CASE("seed, use, stream, substream and index each change the number") {
  std::set<std::array<std::uint32_t, 4>> blocks;
  int made = 0;
  for (const std::uint64_t seed : {0u, 1u})
    for (const RandomUse use : {RandomUse::kInit, RandomUse::kDropout, RandomUse::kAugment})
      for (const std::uint32_t stream : {0u, 1u})
        for (const std::uint32_t substream : {0u, 1u})
          for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1} << 32}) {
            blocks.insert(CounterRng(seed, use, stream, substream).block(index));
            ++made;
          }
  CHECK(made == 48);
  CHECK(std::ssize(blocks) == made);
}

TEST_CASE("uniform numbers lie in [0, 1) and have the mean and variance of U(0, 1)") {
  const CounterRng rng(7, RandomUse::kInit);
  constexpr int n = 100000;
  double sum = 0, squares = 0, least = 1, most = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double u = rng.uniform(i), d = rng.uniform_double(i);
    REQUIRE(u >= 0);
    REQUIRE(u < 1);
    REQUIRE(d >= 0);
    REQUIRE(d < 1);
    sum += u, squares += u * u;
    least = std::min(least, u), most = std::max(most, u);
  }
  // The mean of n has standard deviation sqrt(1/12/n) = 9.1e-4, the mean square sqrt(4/45/n) =
  // 9.4e-4; five of them. The smallest of n exceeds 1e-3 with probability exp(-100).
  CHECK(std::abs(sum / n - 0.5) < 4.6e-3);
  CHECK(std::abs(squares / n - 1.0 / 3) < 4.7e-3);
  CHECK(least < 1e-3);
  CHECK(most > 1 - 1e-3);
}

}  // namespace
}  // namespace halomesh
