// SPDX-License-Identifier: Apache-2.0
// Where windows lie, and that their weights add up to what is divided by.
#include "partition/samples/sliding_windows.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "error.hpp"

namespace halomesh {
namespace {

/// The places along the last axis, on which the windows are `window` wide.
std::vector<std::int64_t> places(std::int64_t volume, std::int64_t window,
                                 const WindowPlacement& placement) {
  const SlidingWindows windows({1, 1, volume}, {1, 1, window}, placement);
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < windows.size(); ++i) all.push_back(windows.origin(i)[2]);
  return all;
}

using Places = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("windows cover every plane, half over half") {
  CHECK(places(16, 16, {}) == Places{0});
  CHECK(places(32, 16, {}) == Places{0, 8, 16});
  CHECK(places(33, 16, {}) == Places{0, 8, 16, 17});  // the last one ends with the volume
  CHECK(places(33, 16, {0, true, false}) == Places{0, 16, 17});
  CHECK(places(20, 16, {0.75, true, false}) == Places{0, 4});
  CHECK(places(3, 1, {0.9, true, false}) == Places{0, 1, 2});
}

TEST_CASE("padded windows are centred on the volume") {
  CHECK(places(33, 16, {0.5, true, true}) == Places{-3, 5, 13, 21});
  CHECK(places(10, 16, {0.5, true, true}) == Places{-3});
  CHECK(places(32, 16, {0.5, true, true}) == Places{0, 8, 16});
}

TEST_CASE("the last axis varies fastest") {
  const SlidingWindows windows({8, 8, 12}, {8, 4, 8}, {});
  REQUIRE(windows.size() == 3 * 2);
  CHECK(windows.origin(0) == Spatial{0, 0, 0});
  CHECK(windows.origin(1) == Spatial{0, 0, 4});
  CHECK(windows.origin(2) == Spatial{0, 2, 0});
  CHECK(windows.origin(5) == Spatial{0, 4, 4});
}

TEST_CASE("weights are those of MLPerf's 3-D U-Net, and totals are their sums") {
  for (const bool gaussian : {true, false})
    for (const bool pads : {true, false}) {
      const Spatial volume{19, 8, 33}, extents{8, 8, 16};
      const SlidingWindows windows(volume, extents, {0.5, gaussian, pads});
      std::vector<double> sums(19 * 8 * 33);
      for (std::int64_t k = 0; k < windows.size(); ++k) {
        const Spatial o = windows.origin(k);
        for (std::int64_t d = 0; d < 8; ++d)
          for (std::int64_t h = 0; h < 8; ++h)
            for (std::int64_t w = 0; w < 16; ++w) {
              double expected = 1;
              if (gaussian) {
                const auto square = [](std::int64_t i, double n) {
                  const double r = (static_cast<double>(i) - (n - 1) / 2) / (0.125 * n);
                  return r * r;
                };
                expected = std::cbrt(std::exp(-(square(d, 8) + square(h, 8) + square(w, 16)) / 2));
              }
              const double weight =
                  windows.weight(0, d) * windows.weight(1, h) * windows.weight(2, w);
              CHECK(weight == doctest::Approx(expected));
              const std::int64_t at[3] = {o[0] + d, o[1] + h, o[2] + w};
              if (at[0] < 0 || at[0] >= 19 || at[1] < 0 || at[1] >= 8 || at[2] < 0 || at[2] >= 33)
                continue;
              sums[static_cast<std::size_t>((at[0] * 8 + at[1]) * 33 + at[2])] += weight;
            }
      }
      for (std::int64_t d = 0; d < 19; ++d)
        for (std::int64_t h = 0; h < 8; ++h)
          for (std::int64_t w = 0; w < 33; ++w)
            CHECK(windows.total(0, d) * windows.total(1, h) * windows.total(2, w) ==
                  doctest::Approx(sums[static_cast<std::size_t>((d * 8 + h) * 33 + w)]));
    }
}

TEST_CASE("a volume smaller than a window must be padded") {
  try {
    const SlidingWindows windows({16, 8, 16}, {16, 16, 16}, {});
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) ==
          "volumes of 16x8x16 are smaller than windows of 16x16x16 in height");
    CHECK(error.hint().find("--pad") != std::string::npos);
  }
}

}  // namespace halomesh
