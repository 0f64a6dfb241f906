// SPDX-License-Identifier: Apache-2.0
// SGD steps against literal numbers and against the formula in double precision.
#include "src/nn/optimizers/sgd.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "error.hpp"
#include "rng.hpp"
#include "src/nn/optimizers/registry.hpp"

namespace halomesh {
namespace {

TEST_CASE("three steps by hand") {
  // All numbers are exact in binary: v <- v/2 + rate * (g + w/4); w <- w - v.
  const SgdOptions options{0.5f, 0.25f};
  std::vector<float> w{4}, v{0};
  const std::vector<float> g{1};
  sgd_step(options, 0.5f, g, v, w);
  CHECK(v[0] == 1);
  CHECK(w[0] == 3);
  sgd_step(options, 0.5f, g, v, w);
  CHECK(v[0] == 1.375f);
  CHECK(w[0] == 1.625f);
  sgd_step(options, 0.0f, g, v, w);  // a rate of zero still coasts
  CHECK(v[0] == 0.6875f);
  CHECK(w[0] == 0.9375f);
}

TEST_CASE("three steps of Nesterov by hand") {
  // s = rate * (g + w/4); v <- v/2 + s; w <- w - (v/2 + s), all exact in binary.
  const SgdOptions options{0.5f, 0.25f, true};
  std::vector<float> w{4}, v{0};
  const std::vector<float> g{1};
  sgd_step(options, 0.5f, g, v, w);  // s = 1
  CHECK(v[0] == 1);
  CHECK(w[0] == 2.5f);
  sgd_step(options, 0.5f, g, v, w);  // s = 0.8125
  CHECK(v[0] == 1.3125f);
  CHECK(w[0] == 1.03125f);
  sgd_step(options, 0.0f, g, v, w);  // a rate of zero still coasts
  CHECK(v[0] == 0.65625f);
  CHECK(w[0] == 0.703125f);
}

TEST_CASE("without momentum and decay a step is plain descent") {
  std::vector<float> w{1, -2}, v{7, 7};
  sgd_step({0, 0}, 0.25f, std::vector<float>{4, -8}, v, w);
  CHECK(w == std::vector<float>{0, 0});
  CHECK(v == std::vector<float>{1, -2});
}

TEST_CASE("long vectors follow the formula for any slicing") {
  const std::size_t size = 100003;  // more than one thread's worth, and odd
  const SgdOptions options{0.91f, 1e-3f};
  std::vector<float> w(size), v(size), g(size);
  const CounterRng rng(3, RandomUse::kSynth);
  for (std::size_t i = 0; i < size; ++i) {
    w[i] = rng.uniform(3 * i) - 0.5f;
    v[i] = rng.uniform(3 * i + 1) - 0.5f;
    g[i] = rng.uniform(3 * i + 2) - 0.5f;
  }
  std::vector<float> w_sliced = w, v_sliced = v;
  std::vector<double> expected_v(size), expected_w(size);
  for (std::size_t i = 0; i < size; ++i) {
    const double m = options.momentum, wd = options.weight_decay;
    expected_v[i] = m * static_cast<double>(v[i]) +
                    0.1 * (static_cast<double>(g[i]) + wd * static_cast<double>(w[i]));
    expected_w[i] = static_cast<double>(w[i]) - expected_v[i];
  }
  sgd_step(options, 0.1f, g, v, w);
  const std::span<float> ws(w_sliced), vs(v_sliced);
  const std::span<const float> gs(g);
  for (std::size_t at = 0, length = 1; at < size; at += length, length *= 3) {
    const std::size_t n = std::min(length, size - at);
    sgd_step(options, 0.1f, gs.subspan(at, n), vs.subspan(at, n), ws.subspan(at, n));
  }
  // |v| < 0.52: five roundings of numbers below it, and the rounded rate; w: one more, below 1.1.
  std::size_t wrong = 0, compared = 0;
  for (std::size_t i = 0; i < size; ++i, ++compared) {
    wrong += !(std::abs(static_cast<double>(v[i]) - expected_v[i]) <= 6 * 0.52 * 0x1p-24);
    wrong += !(std::abs(static_cast<double>(w[i]) - expected_w[i]) <= 6 * 1.1 * 0x1p-24);
    wrong += !(std::abs(w_sliced[i] - w[i]) <= 2 * 6 * 1.1f * 0x1p-24f);
    wrong += !(std::abs(v_sliced[i] - v[i]) <= 2 * 6 * 0.52f * 0x1p-24f);
  }
  CHECK(compared == size);
  CHECK(wrong == 0);
}

TEST_CASE("settings that no optimizer accepts are named, with what is wrong") {
  const auto refused = [](const OptimizerOptions& options, const char* said) {
    CHECK_THROWS_WITH_AS(make_optimizer(options), said, UsageError);
  };
  for (const char* name : {"sgd", "nesterov", "lars"}) {
    refused({.name = name, .momentum = 1}, "--momentum 1 is out of range");
    refused({.name = name, .weight_decay = -1}, "--weight-decay -1 is out of range");
  }
  for (const char* name : {"adamw", "lamb"}) {
    refused({.name = name, .betas = {0.5, 1}}, "--betas 0.5,1 is out of range");
    refused({.name = name, .epsilon = 0},
            "--epsilon 0: adamw and lamb divide by it where a gradient is 0");
    refused({.name = name, .weight_decay = -1}, "--weight-decay -1 is out of range");
  }
  refused({.name = "lars", .epsilon = -1}, "--epsilon -1 is out of range");
  refused({.name = "lars", .lars_coefficient = 0},
          "--lars-coefficient 0: nothing would be trained");
  refused({.name = "none"}, "unknown optimizer \"none\"");
}

TEST_CASE("wrong options and lengths are refused") {
  CHECK_NOTHROW(validate({0.9f, 0}));
  CHECK_THROWS_AS(validate({1.0f, 0}), UsageError);
  CHECK_THROWS_AS(validate({-0.1f, 0}), UsageError);
  CHECK_THROWS_AS(validate({0.9f, -1e-6f}), UsageError);
  CHECK_THROWS_AS(validate({std::nanf(""), 0}), UsageError);
  std::vector<float> two(2), three(3);
  CHECK_THROWS_AS(sgd_step({}, 1, two, three, three), Error);
  CHECK_THROWS_AS(sgd_step({}, 1, three, two, three), Error);
}

}  // namespace
}  // namespace halomesh
