// SPDX-License-Identifier: Apache-2.0
// Kernel times: what was measured is returned, what lies between is interpolated, the rest follows
// the roofline.
#include "partition/cost/kernel_table.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "error.hpp"

namespace halomesh {
namespace {

using Source = KernelTime::Source;

KernelCase convolution(std::int64_t d, std::int64_t h, std::int64_t w, std::int64_t batch = 1) {
  KernelCase call;
  call.kernel = "convolution 3x3x3 same fp32";
  call.src = {16, d + 2, h, w};
  call.dst = {32, d, h, w};
  call.batch = batch;
  call.flops = 2.0 * 27 * 16 * 32 * static_cast<double>(d * h * w * batch);
  call.bytes = 4.0 * static_cast<double>(call.src.volume() + call.dst.volume());
  return call;
}

// A CPU that loses a little of its rate on short rows.
double seconds_of(const KernelCase& call) {
  return call.flops / 1e11 * std::pow(static_cast<double>(call.src.w), -0.1);
}

TEST_CASE("a measured kernel takes what was measured") {
  KernelTable table;
  table.add(convolution(16, 16, 16), 0.5);
  table.add(convolution(16, 16, 16), 0.25);
  CHECK(table.size() == 1);
  const KernelTime time = table.time(convolution(16, 16, 16));
  CHECK(time.seconds == 0.25);
  CHECK(time.source == Source::kMeasured);
  KernelCase nothing;
  CHECK(table.time(nothing).seconds == 0);
}

TEST_CASE("between measurements, rates are linear in the logarithms of extents") {
  KernelTable table;
  for (const std::int64_t d : {8, 32})
    for (const std::int64_t h : {8, 32})
      for (const std::int64_t w : {8, 32}) {
        const KernelCase call = convolution(d, h, w);
        table.add(call, seconds_of(call));
      }
  int compared = 0;
  for (const std::int64_t d : {8, 12, 16, 32})
    for (const std::int64_t w : {10, 16, 24, 64}) {
      const KernelTime time = table.time(convolution(d, 16, w));
      CAPTURE(d);
      CAPTURE(w);
      CHECK(time.source == Source::kInterpolated);
      CHECK(time.seconds == doctest::Approx(seconds_of(convolution(d, 16, w))).epsilon(0.05));
      ++compared;
    }
  CHECK(compared == 16);
}

TEST_CASE("one measurement carries its rate to extents within a factor 4") {
  KernelTable table;
  table.rates = {1e12, 0.5, 1e11};
  const KernelCase call = convolution(16, 16, 16);
  table.add(call, 0.5);
  const KernelTime half = table.time(convolution(14, 16, 8));
  CHECK(half.source == Source::kInterpolated);
  CHECK(half.seconds == doctest::Approx(0.5 * 14 / 16 / 2));
  CHECK(table.time(convolution(16, 16, 80)).source == Source::kRoofline);
}

TEST_CASE("samples take as long each, and weights are read once") {
  KernelTable table;
  table.rates = {1e12, 0.5, 1e11};
  table.add(convolution(16, 16, 16), 0.5);
  const KernelTime many = table.time(convolution(16, 16, 16, 64));
  CHECK(many.source == Source::kInterpolated);
  CHECK(many.seconds == doctest::Approx(0.5 * 64));
  KernelCase dense;
  dense.kernel = "dense fp32";
  dense.src = {4096, 1, 1, 1};
  dense.dst = {128, 1, 1, 1};
  const double weights = 4.0 * 4096 * 128, values = 4.0 * (4096 + 128);
  const auto of_batch = [&](std::int64_t batch) {
    KernelCase call = dense;
    call.batch = batch;
    call.flops = 2.0 * 4096 * 128 * static_cast<double>(batch);
    call.bytes = weights + values * static_cast<double>(batch);
    return call;
  };
  table.add(of_batch(1), 1e-4);
  const double ratio = (weights + 4 * values) / (weights + values);
  CHECK(table.time(of_batch(4)).seconds == doctest::Approx(1e-4 * ratio));
}

TEST_CASE("what is not comparable follows the roofline") {
  KernelTable table;
  table.rates = {1e12, 0.5, 1e11};
  table.add(convolution(16, 16, 16), 0.5);
  KernelCase call = convolution(16, 16, 16);
  SUBCASE("another pass") { call.pass = KernelPass::kBackwardData; }
  SUBCASE("another kernel") { call.kernel = "convolution 2x2x2 same fp32"; }
  SUBCASE("other channels") { call.src.c = 8; }
  SUBCASE("more threads") { call.threads = 2; }
  const KernelTime time = table.time(call);
  CHECK(time.source == Source::kRoofline);
  CHECK(time.seconds == doctest::Approx(call.flops / 0.5e12));
  call.flops = 0;  // bound by memory
  CHECK(table.time(call).seconds == doctest::Approx(call.bytes / 1e11));
}

TEST_CASE("times and rates that mean nothing are refused") {
  KernelTable table;
  for (const double seconds : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK_THROWS_AS(table.add(convolution(1, 1, 1), seconds), Error);
  KernelCase empty = convolution(1, 1, 1);
  empty.dst = {};
  CHECK_THROWS_AS(table.add(empty, 1), Error);
  CHECK_THROWS_AS(table.time(convolution(1, 1, 1)), Error);  // neither times nor a peak
}

}  // namespace
}  // namespace halomesh
