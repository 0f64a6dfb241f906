// SPDX-License-Identifier: Apache-2.0
// The input gradient of many channels under max pooling against its definition in double
// precision, and that it writes every voxel under the windows and nothing else.
#include "src/nn/kernels/sparse_data_gradient.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "error.hpp"
#include "src/nn/data_type.hpp"
#include "test/harness/pooled_weight_reference.hpp"

namespace halomesh {
namespace {

using namespace pooled_weight_reference;

std::vector<float> weights_of(const Case& c) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> weights(at(c.weights()));
  std::generate(weights.begin(), weights.end(), [&] { return value(random); });
  return weights;
}

// Gradients of the source, for each the sum of the magnitudes of what was added, and how many.
struct Expected {
  std::vector<double> value, size;
  std::vector<std::int64_t> terms;
};

template <class T>
Expected reference(const Case& c, const Sample<float, T>& sample,
                   const std::vector<float>& weights) {
  const std::size_t n = at(volume(c.src) * c.ci);
  Expected e{std::vector<double>(n), std::vector<double>(n), std::vector<std::int64_t>(n)};
  const Spatial pooled = c.pooled();
  for (std::int64_t i = 0; i < volume(pooled) * c.co; ++i) {
    const std::int64_t p = i / c.co, o = i % c.co, tap = sample.argmax[at(i)] & 0x7f;
    const double slope = (sample.argmax[at(i)] & kSloped) != 0 ? double{kSlope} : 1.0;
    const double g = double{static_cast<float>(sample.diff[at(i)])} * slope;
    const Spatial place{p / (pooled[1] * pooled[2]), p / pooled[2] % pooled[1], p % pooled[2]};
    const Spatial winner{tap / (c.pool[1] * c.pool[2]), tap / c.pool[2] % c.pool[1],
                         tap % c.pool[2]};
    for (std::int64_t k = 0; k < volume(c.kernel); ++k) {
      const Spatial of_kernel{k / (c.kernel[1] * c.kernel[2]), k / c.kernel[2] % c.kernel[1],
                              k % c.kernel[2]};
      Spatial x;
      bool inside = true;
      for (std::size_t a = 0; a < 3; ++a) {
        x[a] = place[a] * c.pool[a] - c.pool_before[a] + winner[a] + of_kernel[a] - c.pad_before[a];
        inside = inside && x[a] >= 0 && x[a] < c.src[a];
      }
      for (std::int64_t ci = 0; inside && ci < c.ci; ++ci) {
        const std::size_t to = at(((x[0] * c.src[1] + x[1]) * c.src[2] + x[2]) * c.ci + ci);
        const double product = g * double{weights[at((o * c.ci + ci) * volume(c.kernel) + k)]};
        e.value[to] += product;
        e.size[to] += std::abs(product);
        ++e.terms[to];
      }
    }
  }
  return e;
}

// A block of the source with gaps between its pixels, rows and planes, all NaN; `write` fills it.
template <class S>
struct Block {
  Spatial step;
  std::vector<S> memory;
  explicit Block(const Case& c) {
    step[2] = c.ci + 3;
    step[1] = c.src[2] * step[2] + 5;
    step[0] = c.src[1] * step[1] + 7;
    memory.assign(at(c.src[0] * step[0]), S(NAN));
  }
  friend bool same_bits(const Block& a, const Block& b) {
    return std::equal(a.memory.begin(), a.memory.end(), b.memory.begin(), b.memory.end(),
                      [](float x, float y) { return x == y || (x != x && y != y); });
  }
};

template <class S, class T>
Block<S> run(const Case& c, const Sample<float, T>& sample, SparseDataGradient& gradient) {
  Block<S> block(c);
  SparseDataGradient::Target<S> target{block.memory.data(), block.step, c.src, {}};
  for (std::size_t a = 0; a < 3; ++a) target.corner[a] = -c.pool_before[a] - c.pad_before[a];
  const Spatial n = c.pooled(), step{n[1] * n[2] * c.co, n[2] * c.co, c.co};
  for (std::int64_t lo = 0; lo < n[0]; lo += c.planes_a_chunk)
    gradient.run(target, n, {lo, std::min(n[0], lo + c.planes_a_chunk)},
                 PooledWeightGradient::Pooled<T>{sample.diff.data(), step},
                 PooledWeightGradient::Argmax{sample.argmax.data(), step}, kSlope);
  return block;
}

// As the weight gradient's bound, with the terms of each element. Elements under no window keep
// what they were; none of a case with SAME padding are.
template <class T>
std::int64_t expect_gradient(const Case& c) {
  CAPTURE(c.name);
  const Sample<float, T> sample(c, 23);
  const std::vector<float> weights = weights_of(c);
  const Expected expected = reference(c, sample, weights);
  SparseDataGradient gradient({c.ci, c.co, c.kernel, c.pool}, c.pooled(), c.threads);
  gradient.load_weights(weights.data());
  const Block<float> got = run<float>(c, sample, gradient);
  CHECK(same_bits(got, run<float>(c, sample, gradient)));
  std::int64_t compared = 0, wrong = 0, written = 0;
  for (std::int64_t d = 0; d < c.src[0]; ++d)
    for (std::int64_t h = 0; h < c.src[1]; ++h)
      for (std::int64_t w = 0; w < c.src[2]; ++w)
        for (std::int64_t i = 0; i < c.ci; ++i) {
          const float value =
              got.memory[at(d * got.step[0] + h * got.step[1] + w * got.step[2] + i)];
          const std::size_t from = at(((d * c.src[1] + h) * c.src[2] + w) * c.ci + i);
          const double nu = static_cast<double>(expected.terms[from] + 2) * std::ldexp(1.0, -24);
          const double bound = nu / (1 - nu) * (1 + 1e-6) * expected.size[from];
          if (!(std::abs(double{value} - expected.value[from]) <= bound)) {
            if (wrong++ == 0)
              MESSAGE(d << " " << h << " " << w << " " << i << ": " << value << " is not "
                        << expected.value[from]);
          }
          ++compared;
        }
  for (const float value : got.memory) written += std::isnan(value) ? 0 : 1;
  CHECK(wrong == 0);
  CHECK(written == compared);  // nothing between them
  return compared;
}

// SAME padding, one-sided for kernels of 2; with a pool of 2 all windows are whole.
Case same_case(std::int64_t kernel, std::int64_t ci, std::int64_t co, const Spatial& src) {
  Case c;
  c.kernel = {kernel, kernel, kernel};
  c.pad_before = {kernel - 2, kernel - 2, kernel - 2};
  c.pad_after = {1, 1, 1};
  c.ci = ci;
  c.co = co;
  c.src = src;
  c.name = fmt::format("{} to {} channels, kernel {}", ci, co, kernel);
  return c;
}

TEST_CASE("sparse data gradient equals its definition under any pool and padding") {
  std::int64_t compared = 0;
  for (const std::int64_t kernel : {2, 3})
    for (const Spatial& pool : {Spatial{2, 2, 2}, Spatial{1, 1, 1}, Spatial{3, 3, 3},
                                Spatial{1, 2, 3}, Spatial{3, 1, 2}, Spatial{2, 5, 3}})
      for (const int threads : {1, 5}) {
        Case c = same_case(kernel, 16, 5, {9, 7, 19});
        c.pool = pool;
        c.threads = threads;
        for (std::size_t a = 0; a < 3; ++a) c.pool_before[a] = (pool[a] - 1) / 2;
        compared += expect_gradient<float>(c);
      }
  CHECK(compared > 0);
}

TEST_CASE("sparse data gradient holds for channels of any number of vectors") {
  std::int64_t compared = 0;
  for (const std::int64_t ci : {16, 32, 48})
    for (const std::int64_t co : {1, 15, 16, 17, 35})
      for (const std::int64_t kernel : {2, 3})
        compared += expect_gradient<float>(same_case(kernel, ci, co, {6, 10, 18}));
  CHECK(compared > 0);
}

TEST_CASE("sparse data gradient of chunks of planes on any number of threads") {
  std::int64_t compared = 0;
  for (const std::int64_t kernel : {2, 3})
    for (const std::int64_t planes : {1, 2, 5, 100})
      for (const int threads : {1, 2, 3, 7, 12}) {
        Case c = same_case(kernel, 32, 20, {18, 12, 20});  // of more than one tile
        c.planes_a_chunk = planes;
        c.threads = threads;
        c.name += fmt::format(", {} planes a chunk, {} threads", planes, threads);
        compared += expect_gradient<float>(c);
      }
  CHECK(compared > 0);
}

TEST_CASE("sparse data gradient takes bf16") {
  std::int64_t compared = 0;
  for (const std::int64_t kernel : {2, 3})
    compared += expect_gradient<Bfloat16>(same_case(kernel, 16, 19, {6, 8, 20}));
  CHECK(compared > 0);
}

// The sums are added in the same order, in place in fp32.
TEST_CASE("sparse data gradient in bf16 is the one in fp32, rounded once") {
  std::int64_t compared = 0;
  for (const std::int64_t kernel : {2, 3})
    for (const Spatial& pool : {Spatial{2, 2, 2}, Spatial{1, 1, 1}, Spatial{3, 1, 2}})
      for (const std::int64_t planes : {1, 3, 4, 100})
        for (const int threads : {1, 2, 3, 12}) {
          Case c = same_case(kernel, 32, 20, {18, 18, 38});  // tiles with neighbours on all sides
          c.pool = pool;
          c.planes_a_chunk = planes;
          for (std::size_t a = 0; a < 3; ++a) c.pool_before[a] = (pool[a] - 1) / 2;
          CAPTURE(threads);
          std::vector<float> weights = weights_of(c);
          const Sample<float, Bfloat16> sample(c, 29);
          SparseDataGradient in_bf16({c.ci, c.co, c.kernel, c.pool}, c.pooled(), threads,
                                     DataType::kBfloat16, c.src[1], c.src[2]);
          in_bf16.load_weights(weights.data());
          for (float& w : weights) w = static_cast<float>(Bfloat16(w));
          SparseDataGradient in_fp32({c.ci, c.co, c.kernel, c.pool}, c.pooled(), threads);
          in_fp32.load_weights(weights.data());
          const auto expected = run<float>(c, sample, in_fp32);
          const auto got = run<Bfloat16>(c, sample, in_bf16);
          std::int64_t wrong = 0;
          for (std::size_t i = 0; i < got.memory.size(); ++i) {
            const float want = static_cast<float>(Bfloat16(expected.memory[i]));
            const auto value = static_cast<float>(got.memory[i]);
            wrong += value == want || (std::isnan(value) && std::isnan(want)) ? 0 : 1;
            compared += std::isnan(want) ? 0 : 1;
          }
          CHECK(wrong == 0);
        }
  CHECK(compared > 0);
}

// Each term of one voxel is a power of two: no sum is rounded, in whatever order.
TEST_CASE("sparse data gradient adds all windows that meet in a voxel") {
  Case c = same_case(3, 16, 3, {8, 20, 36});
  Sample<float, float> sample(c, 1);
  std::fill(sample.diff.begin(), sample.diff.end(), 1.0F);
  std::fill(sample.argmax.begin(), sample.argmax.end(), std::uint8_t{0});
  const std::vector<float> weights(at(c.weights()), 0.25F);
  const Expected expected = reference(c, sample, weights);
  SparseDataGradient gradient({c.ci, c.co, c.kernel, c.pool}, c.pooled(), 4);
  gradient.load_weights(weights.data());
  const Block<float> got = run<float>(c, sample, gradient);
  std::int64_t several = 0;
  for (std::int64_t v = 0; v < volume(c.src); ++v) {
    const std::int64_t d = v / (c.src[1] * c.src[2]), h = v / c.src[2] % c.src[1], w = v % c.src[2];
    const std::size_t from = at(v * c.ci);
    CHECK(double{got.memory[at(d * got.step[0] + h * got.step[1] + w * got.step[2])]} ==
          expected.value[from]);
    several += expected.terms[from] > c.co ? 1 : 0;
  }
  CHECK(several > 1000);
}

TEST_CASE("sparse data gradient refuses what it has no kernel for") {
  constexpr Spatial kTwo{2, 2, 2};
  CHECK(SparseDataGradient::supports({16, 7, kTwo, kTwo}));
  CHECK_FALSE(SparseDataGradient::supports({24 + 1, 7, kTwo, kTwo}));
  CHECK_FALSE(SparseDataGradient::supports({16, 7, {1, 1, 1}, kTwo}));
  CHECK_THROWS_AS(SparseDataGradient({17, 8, kTwo, kTwo}, kTwo, 1), Error);
  CHECK_THROWS_AS(SparseDataGradient({16, 8, kTwo, kTwo}, kTwo, 0), Error);
}

}  // namespace
}  // namespace halomesh
