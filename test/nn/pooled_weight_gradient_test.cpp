// SPDX-License-Identifier: Apache-2.0
// The weight gradient under max pooling against its definition in double precision, and that it
// reads nothing outside its input.
#include "src/nn/layers/pooled_weight_gradient.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "error.hpp"
#include "src/nn/data_type.hpp"
#include "test/harness/pooled_weight_reference.hpp"

namespace halomesh {
namespace {

using namespace pooled_weight_reference;

// A copy of elements with an unreadable page right before or right after them.
template <class T>
class Guarded {
 public:
  Guarded(const T* from, std::size_t count, bool at_end) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t bytes = count * sizeof(T), room = (bytes + page - 1) / page * page;
    size_ = room + 2 * page;
    memory_ = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory_ != MAP_FAILED);
    char* first = static_cast<char*>(memory_) + page;
    if (room > 0) REQUIRE(mprotect(first, room, PROT_READ | PROT_WRITE) == 0);
    data_ = reinterpret_cast<T*>(first + (at_end ? room - bytes : 0));
    if (bytes > 0) std::memcpy(static_cast<void*>(data_), from, bytes);
  }
  ~Guarded() { munmap(memory_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  const T* data() const { return data_; }

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
  T* data_ = nullptr;
};

// Pooled values with gaps between pixels, rows and planes.
template <class T>
struct Spread {
  Spatial step;
  std::vector<T> values;
  Spread(const T* dense, const Spatial& pooled, std::int64_t co, std::int64_t gap, T fill) {
    step[2] = co + gap;
    step[1] = pooled[2] * step[2] + gap;
    step[0] = pooled[1] * step[1] + gap;
    if (volume(pooled) == 0) return;
    values.assign(
        at((pooled[0] - 1) * step[0] + (pooled[1] - 1) * step[1] + (pooled[2] - 1) * step[2] + co),
        fill);
    for (std::int64_t d = 0; d < pooled[0]; ++d)
      for (std::int64_t h = 0; h < pooled[1]; ++h)
        for (std::int64_t w = 0; w < pooled[2]; ++w)
          for (std::int64_t o = 0; o < co; ++o)
            values[at(d * step[0] + h * step[1] + w * step[2] + o)] = *dense++;
  }
};

// Adds a sample in chunks of pooled planes, each with only the src planes that its windows read,
// all in memory whose surroundings cannot be read.
template <class S, class T>
void add_sample(const Case& c, const Sample<S, T>& sample, bool first, bool at_end,
                PooledWeightGradient& gradient) {
  const Spatial pooled = c.pooled();
  const std::int64_t plane = pooled[1] * pooled[2] * c.co, src_plane = c.src[1] * c.src[2] * c.ci;
  for (std::int64_t lo = 0; lo < pooled[0]; lo += c.planes_a_chunk) {
    const std::int64_t hi = std::min(lo + c.planes_a_chunk, pooled[0]);
    Spatial corner;
    for (std::size_t a = 0; a < 3; ++a) corner[a] = -c.pool_before[a] - c.pad_before[a];
    corner[0] += lo * c.pool[0];
    const std::int64_t read = (hi - lo) * c.pool[0] + c.kernel[0] - 1;
    const std::int64_t src_lo = std::clamp<std::int64_t>(corner[0], 0, c.src[0]);
    const std::int64_t src_hi = std::clamp(corner[0] + read, src_lo, c.src[0]);
    corner[0] -= src_lo;
    const Spatial extents{hi - lo, pooled[1], pooled[2]};
    const Spread<T> diff(sample.diff.data() + lo * plane, extents, c.co, 3, T(NAN));
    const Spread<std::uint8_t> argmax(sample.argmax.data() + lo * plane, extents, c.co, 5, 0xff);
    const Guarded<S> src(sample.src.data() + src_lo * src_plane, at((src_hi - src_lo) * src_plane),
                         at_end);
    const Guarded<T> diff_memory(diff.values.data(), diff.values.size(), at_end);
    const Guarded<std::uint8_t> argmax_memory(argmax.values.data(), argmax.values.size(), at_end);
    gradient.add(
        PooledWeightGradient::Source<S>{src.data(), {src_hi - src_lo, c.src[1], c.src[2]}, corner},
        extents, PooledWeightGradient::Pooled<T>{diff_memory.data(), diff.step},
        PooledWeightGradient::Pooled<std::uint8_t>{argmax_memory.data(), argmax.step}, kSlope,
        first && lo == 0);
  }
}

struct Gradient {
  std::vector<float> weight, bias;
  friend bool operator==(const Gradient&, const Gradient&) = default;
};

template <class S, class T>
Gradient run(const Case& c, bool at_end, PooledWeightGradient& gradient) {
  for (unsigned n = 0; n < static_cast<unsigned>(c.batch); ++n)
    add_sample(c, Sample<S, T>(c, 17 + n), n == 0, at_end, gradient);
  Gradient g{std::vector<float>(at(c.weights()), NAN), std::vector<float>(at(c.co), NAN)};
  gradient.store(g.weight.data(), g.bias.data());
  return g;
}

// A sum of `terms` products in fp32, in any order, errs by at most gamma(terms + 2) of the sum of
// the magnitudes, gamma(n) = n u / (1 - n u), u = 2^-24: each term passes through at most
// terms - 1 additions of voxels and, first, one rounding each for the slope and the product; one
// more addition, of zero, is exact. Adding the empty sums of other tiles or threads is exact, too.
// (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2.) The reference's own error
// is 2^-29 of that.
double gamma(std::int64_t terms) {
  const double nu = static_cast<double>(terms + 2) * std::ldexp(1.0, -24);
  return nu / (1 - nu) * (1 + 1e-6);
}

std::int64_t check_near(const std::vector<float>& got, const std::vector<double>& expected,
                        const std::vector<double>& size, std::int64_t terms) {
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(double{got[i]} - expected[i]);
    if (!(error <= gamma(terms) * size[i])) {
      if (wrong++ == 0) MESSAGE(i << ": " << got[i] << " is not " << expected[i]);
    }
  }
  CHECK(wrong == 0);
  return static_cast<std::int64_t>(expected.size());
}

template <class S, class T>
std::int64_t expect_gradient(const Case& c) {
  CAPTURE(c.name);
  Reference expected(c);
  for (unsigned n = 0; n < static_cast<unsigned>(c.batch); ++n)
    expected.add(c, Sample<S, T>(c, 17 + n));
  PooledWeightGradient gradient({c.ci, c.co, c.kernel, c.pool}, c.threads);
  const Gradient got = run<S, T>(c, true, gradient);
  CHECK(run<S, T>(c, false, gradient) == got);  // new sums, the same bits
  return check_near(got.weight, expected.weight, expected.weight_size, expected.terms) +
         check_near(got.bias, expected.bias, expected.bias_size, expected.terms);
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
