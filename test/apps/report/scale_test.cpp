// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/scale.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "joined.hpp"

namespace halomesh {
namespace {

std::string labels(const Range& range, int most) {
  std::vector<std::string> found;
  for (const Tick& tick : ticks_of(range, most)) {
    if (!tick.label.empty()) found.push_back(tick.label);
  }
  return joined(found, " ");
}

TEST_CASE("ticks are multiples of 1, 2 or 5 x 10^n, labelled alike") {
  CHECK(labels({0, 1, false}, 6) == "0 0.2 0.4 0.6 0.8 1.0");
  CHECK(labels({0, 0.003, false}, 7) == "0 0.0005 0.0010 0.0015 0.0020 0.0025 0.0030");
  CHECK(labels({-3, 12, false}, 5) == "0 5 10");
  CHECK(labels({-1, 1, false}, 5) == "-1.0 -0.5 0 0.5 1.0");
  CHECK(labels({0, 100000, false}, 6) == "0 20,000 40,000 60,000 80,000 100,000");
  CHECK(labels({0, 3e9, false}, 7) == "0 0.5×10⁹ 1.0×10⁹ 1.5×10⁹ 2.0×10⁹ 2.5×10⁹ 3.0×10⁹");
  CHECK(labels({1e-3, 1e5, true}, 9) == "0.001 0.01 0.1 1 10 100 1000 10,000 100,000");
  CHECK(labels({1e-3, 1e5, true}, 5) == "0.01 1 100 10,000");
  CHECK(labels({5, 50, true}, 8) == "5 10 20 50");
  CHECK(labels({1e-9, 1e-6, true}, 8) == "10⁻⁹ 10⁻⁸ 10⁻⁷ 10⁻⁶");
  CHECK(labels({-0.25, 0.26, false}, 6) == "-0.2 0 0.2");
  CHECK(labels({0, 2e-6, false}, 3) == "0 1×10⁻⁶ 2×10⁻⁶");
  CHECK(labels({2, 9, true}, 9) == "2 3 4 5 6 7 8 9");
  CHECK(ticks_of({0, 1, false}, 6).at(3).value == 0.6);  // not 0.6000000000000001
  CHECK(labels({100, 200, true}, 6) == "100 120 140 160 180 200");
  CHECK(ticks_of({1, 100, true}, 4).size() == 19);  // small ones between 1, 10 and 100
}

TEST_CASE("a single value gets room on both sides") {
  const Range five = widened({5, 5, false});
  CHECK(five.least == doctest::Approx(4.5));
  CHECK(five.most == doctest::Approx(5.5));
  CHECK(widened({0, 0, false}).most == 1);
  const Range hundred = rounded({100, 100, true}, 7);
  CHECK(hundred.least == 50);
  CHECK(hundred.most == 200);
  CHECK(labels(rounded({-2, -2, false}, 5), 5) == "-2.2 -2.1 -2.0 -1.9 -1.8");
}

TEST_CASE("a range is extended to whole ticks") {
  const Range linear = rounded({0.13, 0.52, false}, 6);
  CHECK(linear.least == doctest::Approx(0.1));
  CHECK(linear.most == doctest::Approx(0.6));
  const Range logarithmic = rounded({0.013, 730, true}, 6);
  CHECK(logarithmic.least == doctest::Approx(0.01));
  CHECK(logarithmic.most == 1000);
}

TEST_CASE("scales map ends to ends and, if logarithmic, ratios to lengths") {
  const Scale linear({0, 10, false}, 300, 100);
  CHECK(linear(0) == 300);
  CHECK(linear(2.5) == 250);
  CHECK(linear(10) == 100);
  const Scale logarithmic({0.01, 100, true}, 0, 400);
  CHECK(logarithmic(1) == doctest::Approx(200));
  CHECK(logarithmic(10) == doctest::Approx(300));
}

TEST_CASE("numbers for people have five digits at most") {
  CHECK(readable(0) == "0");
  CHECK(readable(1234567) == "1,234,567");
  CHECK(readable(-0.123456) == "-0.12346");
  CHECK(readable(12345.678) == "12,346");
  CHECK(readable(1.5e-7) == "1.5×10⁻⁷");
  CHECK(readable(2.5) == "2.5");
  CHECK(readable(1530) == "1530");
  CHECK(readable(std::nan("")) == "–");
  CHECK(readable(-INFINITY) == "-∞");
}

}  // namespace
}  // namespace halomesh
