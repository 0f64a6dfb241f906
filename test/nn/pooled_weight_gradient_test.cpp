// SPDX-License-Identifier: Apache-2.0
// The weight gradient under max pooling against its definition in double precision, and that it
// reads nothing outside its input.
#include "src/nn/kernels/pooled_weight_gradient.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "error.hpp"
#include "src/nn/data_type.hpp"
#include "test/harness/pooled_weight_check.hpp"

namespace halomesh {
namespace {

using namespace pooled_weight_reference;

template <class S, class T>
std::int64_t expect_gradient(const Case& c) {
  return expect_gradient_of<S, T>(c,
                                  PooledWeightGradient({c.ci, c.co, c.kernel, c.pool}, c.threads));
}

// Kernels with one-sided (even) or symmetric (odd) SAME padding, or none.
std::vector<Case> window_cases() {
  std::vector<Case> cases;
  const Spatial kernels[] = {{1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {1, 2, 3},
                             {3, 1, 2}, {2, 3, 1}, {5, 4, 7}, {2, 7, 2}};
  for (const Spatial& kernel : kernels)
    for (const Spatial& pool : {Spatial{2, 2, 2}, Spatial{1, 1, 1}, Spatial{3, 3, 3},
                                Spatial{1, 2, 3}, Spatial{3, 1, 2}, Spatial{2, 5, 3}})
      for (bool same : {false, true}) {
        Case c;
        c.name = fmt::format("kernel {}{}{} pool {}{}{}{}", kernel[0], kernel[1], kernel[2],
                             pool[0], pool[1], pool[2], same ? " same" : " valid");
        c.kernel = kernel;
        c.pool = pool;
        c.src = {9, 7, 11};
        c.co = 9;
        for (std::size_t a = 0; same && a < 3; ++a) {
          c.pad_before[a] = (kernel[a] - 1) / 2;
          c.pad_after[a] = kernel[a] / 2;
          c.pool_before[a] = (pool[a] - 1) / 2;
        }
        cases.push_back(c);
      }
  return cases;
}

static_assert(kSloped == kSlopeBit);

TEST_CASE("pooled weight gradient equals its definition under any window") {
  std::int64_t compared = 0;
  for (const Case& c : window_cases()) compared += expect_gradient<float, float>(c);
  CHECK(compared > 0);
}

TEST_CASE("pooled weight gradient holds for any number of channels") {
  std::int64_t compared = 0;
  for (std::int64_t ci : {1, 2, 3, 4, 5, 8, 16, 21, 32})
    for (std::int64_t co : {1, 7, 8, 32, 35})
      for (std::int64_t k : {2, 3}) {
        Case c;
        c.name = fmt::format("{} to {} channels, kernel {}", ci, co, k);
        c.ci = ci;
        c.co = co;
        c.kernel = {k, k, k};
        c.pad_before = {k - 2, k - 2, k - 2};
        c.pad_after = {1, 1, 1};
        c.src = {5, 6, 7};
        compared += expect_gradient<float, float>(c);
      }
  CHECK(compared > 0);
}

TEST_CASE("pooled weight gradient adds up chunks and samples on any number of threads") {
  std::int64_t compared = 0;
  for (std::int64_t k : {2, 3})
    for (std::int64_t planes : {1, 2, 100})
      for (int threads : {1, 2, 3, 7}) {
        Case c;
        c.name = fmt::format("kernel {}, {} planes a chunk, {} threads", k, planes, threads);
        c.kernel = {k, k, k};
        c.pad_before = {k - 2, k - 2, k - 2};
        c.pad_after = {1, 1, 1};
        c.src = {10, 9, 70};  // wider than a tile
        c.planes_a_chunk = planes;
        c.batch = 2;
        c.threads = threads;
        compared += expect_gradient<float, float>(c);
      }
  CHECK(compared > 0);
}

TEST_CASE("pooled weight gradient takes bf16 for either operand") {
  std::int64_t compared = 0;
  for (const Spatial& kernel : {Spatial{2, 2, 2}, Spatial{3, 3, 3}}) {
    Case c;
    c.name = fmt::format("bf16, kernel {}", kernel[0]);
    c.kernel = kernel;
    c.pad_before = {kernel[0] - 2, kernel[0] - 2, kernel[0] - 2};
    c.pad_after = {1, 1, 1};
    c.src = {9, 12, 33};
    compared += expect_gradient<float, Bfloat16>(c);
    compared += expect_gradient<Bfloat16, float>(c);
    compared += expect_gradient<Bfloat16, Bfloat16>(c);
  }
  CHECK(compared > 0);
}

TEST_CASE("pooled weight gradient includes every one of many tiles") {
  Case c;
  c.name = "many tiles";
  c.src = {20, 64, 66};
  c.pad_after = {1, 1, 1};
  c.ci = 2;
  c.co = 3;
  CHECK(expect_gradient<float, float>(c) > 0);
}

TEST_CASE("pooled weight gradient of an empty box is zero") {
  PooledWeightGradient gradient({4, 8, {2, 2, 2}, {2, 2, 2}}, 2);
  Case c;
  c.co = 8;
  run<float, float>(c, true, gradient);
  const PooledWeightGradient::Source<float> none;
  for (const Spatial& extents : {Spatial{0, 3, 3}, Spatial{3, 0, 3}, Spatial{3, 3, 0}}) {
    gradient.add(none, extents, PooledWeightGradient::Pooled<float>{},
                 PooledWeightGradient::Pooled<std::uint8_t>{}, kSlope, true);
    std::vector<float> weight(at(c.weights()), NAN), bias(8, NAN);
    gradient.store(weight.data(), bias.data());
    CHECK(weight == std::vector<float>(weight.size(), 0.0F));
    CHECK(bias == std::vector<float>(bias.size(), 0.0F));
  }
}

TEST_CASE("pooled weight gradient refuses pools with too many taps") {
  CHECK_THROWS_AS(PooledWeightGradient({4, 8, {2, 2, 2}, {6, 6, 4}}, 1), Error);
  CHECK_THROWS_AS(PooledWeightGradient({4, 8, {2, 0, 2}, {2, 2, 2}}, 1), Error);
  CHECK_THROWS_AS(PooledWeightGradient({0, 8, {2, 2, 2}, {2, 2, 2}}, 1), Error);
  CHECK_THROWS_AS(PooledWeightGradient({4, 8, {2, 2, 2}, {2, 2, 2}}, 0), Error);
}

}  // namespace
}  // namespace halomesh
