// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/scale.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

namespace halomesh {
namespace {

/// The labels of the ticks, separated by spaces; "." for a tick without one.
std::string labels(const Range& range, int most) {
  std::string out;
  for (const Tick& tick : ticks_of(range, most))
    out += (out.empty() ? "" : " ") + (tick.label.empty() ? "." : tick.label);
  return out;
}

TEST_CASE("ticks of a linear scale are multiples of 1, 2 or 5") {
  CHECK(labels({0, 1}, 6) == "0 0.2 0.4 0.6 0.8 1.0");
  CHECK(labels({0, 0.003}, 7) == "0 0.0005 0.0010 0.0015 0.0020 0.0025 0.0030");
  CHECK(labels({0, 128000}, 8) == "0 20,000 40,000 60,000 80,000 100,000 120,000");
  CHECK(labels({-3, 3}, 7) == "-3 -2 -1 0 1 2 3");
  CHECK(labels({-0.25, 0.26}, 6) == "-0.2 0 0.2");
  CHECK(labels({0, 3e12}, 4) == "0 1×10¹² 2×10¹² 3×10¹²");
  CHECK(labels({0, 2e-6}, 3) == "0 1×10⁻⁶ 2×10⁻⁶");
  CHECK(ticks_of({0, 1}, 6).at(3).value == 0.6);  // not 0.6000000000000001
}

TEST_CASE("ticks of a logarithmic scale are powers of ten, or between them") {
  CHECK(labels({1e-3, 1e5, true}, 9) ==
        "0.001 . . . . . . . . 0.01 . . . . . . . . 0.1 . . . . . . . . 1 . . . . . . . . 10 . . . "
        ". . . . . 100 . . . . . . . . 1000 . . . . . . . . 10,000 . . . . . . . . 100,000");
  CHECK(labels({1e-3, 1e5, true}, 5) == "0.01 1 100 10,000");
  CHECK(labels({1, 100, true}, 7) == "1 2 . . 5 . . . . 10 20 . . 50 . . . . 100");
  CHECK(labels({2, 9, true}, 9) == "2 3 4 5 6 7 8 9");
  CHECK(labels({100, 200, true}, 6) == "100 120 140 160 180 200");  // not even a decade
  CHECK(labels({1e-12, 1e-10, true}, 3) == "10⁻¹² . . . . . . . . 10⁻¹¹ . . . . . . . . 10⁻¹⁰");
}

TEST_CASE("a single value gets room on both sides") {
  for (const double value : {5.0, -2.0, 1e-9, 1e12}) {
    CAPTURE(value);
    const Range range = widened({value, value});
    CHECK(range.least < value);
    CHECK(value < range.most);
    CHECK(ticks_of(rounded({value, value}, 7), 7).size() >= 2);
  }
  CHECK(widened({0, 0}).least == 0);
  CHECK(widened({0, 0}).most == 1);
  const Range range = widened({8, 8, true});
  CHECK(range.least > 0);
  CHECK(range.least < 8);
  CHECK(range.most > 8);
}

TEST_CASE("a range is rounded to whole ticks") {
  CHECK(rounded({0.13, 9.2}, 6).least == 0);
  CHECK(rounded({0.13, 9.2}, 6).most == 10);
  CHECK(rounded({0.003, 0.7, true}, 6).least == 0.002);
  CHECK(rounded({0.003, 0.7, true}, 6).most == 1);
  CHECK(rounded({0.2, 5, true}, 6).least == 0.2);  // ends that are round remain
  CHECK(rounded({0.2, 5, true}, 6).most == 5);
}

TEST_CASE("a scale maps its range onto pixels") {
  const Scale linear({-1, 3}, 400, 0);
  CHECK(linear(-1) == 400);
  CHECK(linear(0) == 300);
  CHECK(linear(3) == 0);
  const Scale logarithmic({0.01, 100, true}, 0, 400);
  CHECK(logarithmic(0.01) == 0);
  CHECK(logarithmic(1) == doctest::Approx(200));
  CHECK(logarithmic(10) == doctest::Approx(300));
}

TEST_CASE("numbers are written for people") {
  CHECK(readable(0) == "0");
  CHECK(readable(1530) == "1530");
  CHECK(readable(15300) == "15,300");
  CHECK(readable(-1234567) == "-1,234,567");
  CHECK(readable(0.1234567) == "0.12346");
  CHECK(readable(12.5) == "12.5");
  CHECK(readable(1.5e-7) == "1.5×10⁻⁷");
  CHECK(readable(std::nan("")) == "–");
  CHECK(readable(-INFINITY) == "-∞");
}

}  // namespace
}  // namespace halomesh
