// SPDX-License-Identifier: Apache-2.0
// The weight gradient of many channels under max pooling against its definition in double
// precision, and that it reads nothing outside its input.
#include "src/nn/kernels/sparse_weight_gradient.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "error.hpp"
#include "src/nn/data_type.hpp"
#include "test/harness/pooled_weight_check.hpp"

namespace halomesh {
namespace {

using namespace pooled_weight_reference;

template <class S, class T>
std::int64_t expect_gradient(const Case& c) {
  return expect_gradient_of<S, T>(
      c, SparseWeightGradient({c.ci, c.co, c.kernel, c.pool}, c.pooled(), c.threads));
}

// SAME padding, one-sided for kernels of 2.
Case same_case(std::int64_t kernel, std::int64_t ci, std::int64_t co) {
  Case c;
  c.kernel = {kernel, kernel, kernel};
  c.pad_before = {kernel - 2, kernel - 2, kernel - 2};
  c.pad_after = {1, 1, 1};
  c.ci = ci;
  c.co = co;
  c.name = fmt::format("{} to {} channels, kernel {}", ci, co, kernel);
  return c;
}

TEST_CASE("sparse weight gradient equals its definition under any pool and padding") {
  std::int64_t compared = 0;
  for (const std::int64_t kernel : {2, 3})
    for (const Spatial& pool : {Spatial{2, 2, 2}, Spatial{1, 1, 1}, Spatial{3, 3, 3},
                                Spatial{1, 2, 3}, Spatial{3, 1, 2}, Spatial{2, 5, 3}})
      for (const bool same : {false, true}) {
        Case c = same_case(kernel, 16, 5);
        c.pool = pool;
        c.src = {9, 7, 11};
        for (std::size_t a = 0; a < 3; ++a) {
          if (!same) c.pad_before[a] = c.pad_after[a] = 0;
          c.pool_before[a] = same ? (pool[a] - 1) / 2 : 0;
        }
        compared += expect_gradient<float, float>(c);
      }
  CHECK(compared > 0);
}

TEST_CASE("sparse weight gradient holds for channels of any number of vectors") {
  std::int64_t compared = 0;
  for (const std::int64_t ci : {16, 32, 48})
    for (const std::int64_t co : {1, 15, 16, 17, 35})
      for (const std::int64_t kernel : {2, 3}) {
        Case c = same_case(kernel, ci, co);
        c.src = {5, 6, 7};
        compared += expect_gradient<float, float>(c);
      }
  CHECK(compared > 0);
}

TEST_CASE("sparse weight gradient adds up chunks and samples on any number of threads") {
  std::int64_t compared = 0;
  for (const std::int64_t kernel : {2, 3})
    for (const std::int64_t planes : {1, 3, 100})
      for (const int threads : {1, 2, 3, 7, 12}) {
        Case c = same_case(kernel, 32, 20);
        c.src = {10, 9, 38};  // wider than two tiles
        c.planes_a_chunk = planes;
        c.batch = 2;
        c.threads = threads;
        c.name += fmt::format(", {} planes a chunk, {} threads", planes, threads);
        compared += expect_gradient<float, float>(c);
      }
  CHECK(compared > 0);
}

TEST_CASE("sparse weight gradient takes bf16 for either operand") {
  std::int64_t compared = 0;
  for (const std::int64_t kernel : {2, 3}) {
    Case c = same_case(kernel, 16, 19);
    c.src = {6, 8, 21};
    compared += expect_gradient<float, Bfloat16>(c);
    compared += expect_gradient<Bfloat16, float>(c);
    compared += expect_gradient<Bfloat16, Bfloat16>(c);
  }
  CHECK(compared > 0);
}

TEST_CASE("sparse weight gradient of an empty box is zero") {
  Case c = same_case(2, 16, 8);
  SparseWeightGradient gradient({c.ci, c.co, c.kernel, c.pool}, c.pooled(), 2);
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

TEST_CASE("sparse weight gradient refuses what it has no kernel for") {
  constexpr Spatial kTwo{2, 2, 2}, kThree{3, 3, 3};
  const auto supports = [](std::int64_t ci, const Spatial& kernel, const Spatial& pool) {
    return SparseWeightGradient::supports({ci, 8, kernel, pool});
  };
  CHECK(supports(16, kTwo, kTwo));
  CHECK(supports(64, kThree, {1, 2, 3}));
  CHECK_FALSE(supports(17, kTwo, kTwo));
  CHECK_FALSE(supports(16, {2, 2, 3}, kTwo));
  CHECK_FALSE(supports(16, kTwo, {6, 6, 4}));
  CHECK_FALSE(supports(16, kTwo, {0, 2, 2}));
  CHECK_THROWS_AS(SparseWeightGradient({17, 8, kTwo, kTwo}, kTwo, 1), Error);
  CHECK_THROWS_AS(SparseWeightGradient({16, 8, kTwo, kTwo}, kTwo, 0), Error);
}

}  // namespace
}  // namespace halomesh
