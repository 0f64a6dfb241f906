// SPDX-License-Identifier: Apache-2.0
// Checks of samples that arrive piece by piece.
#include "runtime/data/sample_checks.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace halomesh {
namespace {

TEST_CASE("sample_checks: the first negative voxel, wherever pieces end") {
  const std::vector<std::int16_t> good{0, 255, 256, 32767, 127, 128, 0x7f80, 1, 0};
  std::int64_t found = 0;
  for (std::size_t bad = 0; bad <= good.size(); ++bad) {
    std::vector<std::int16_t> counts = good;
    for (std::size_t i = bad; i < counts.size(); ++i)
      counts[i] = static_cast<std::int16_t>(-1000 - static_cast<int>(i));
    const std::span<const std::byte> bytes = std::as_bytes(std::span(counts));
    for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
      NegativeSearch search;
      for (std::size_t at = 0; at < bytes.size(); at += piece)
        search.take(static_cast<std::int64_t>(at),
                    bytes.subspan(at, std::min(piece, bytes.size() - at)));
      CAPTURE(bad);
      CAPTURE(piece);
      REQUIRE(search.found().has_value() == (bad < good.size()));
      if (!search.found()) continue;
      CHECK(search.found()->index == static_cast<std::int64_t>(bad));
      CHECK(search.found()->value == counts[bad]);
      ++found;
    }
  }
  CHECK(found == 9 * 18);
}

}  // namespace
}  // namespace halomesh
