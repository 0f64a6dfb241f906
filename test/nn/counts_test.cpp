// SPDX-License-Identifier: Apache-2.0
// The logarithms of counts.
#include "src/nn/counts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace halomesh {

TEST_CASE("counts: log(1+x) of every count") {
  const auto logs = log_table();
  CHECK(logs[0] == 0.0f);
  double worst = 0;
  for (std::size_t x = 1; x < logs.size(); ++x) {
    const double exact = std::log(1.0 + static_cast<double>(x));
    worst = std::max(worst, std::abs(logs[x] - exact) / exact);
  }
  // Half a unit in the last place of a float, and two double functions that differ by some ulp.
  CHECK(worst <= 0x1p-24 + 8 * 0x1p-53);
  CHECK(worst > 0);
}

TEST_CASE("counts: standardized by channel, rounded once") {
  const std::vector<ChannelScale> scales = {{0, 1}, {2, 0.5}, {-1, 4}};
  const std::vector<float> tables = scaled_logarithms(scales);
  const std::size_t size = log_table().size();
  REQUIRE(tables.size() == 3 * size);
  for (const std::size_t x : {0UL, 1UL, 7UL, 100UL, 32767UL}) {
    const double y = std::log1p(static_cast<double>(x));
    CHECK(tables[x] == log_table()[x]);
    CHECK(tables[size + x] == static_cast<float>((y - 2) / 0.5));
    CHECK(tables[2 * size + x] == static_cast<float>((y + 1) / 4));
  }
}

}  // namespace halomesh
