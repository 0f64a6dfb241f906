// SPDX-License-Identifier: Apache-2.0
// Runs a weight gradient under max pooling on memory whose surroundings are unreadable, and
// compares it with its definition.
#pragma once

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "src/nn/data_type.hpp"
#include "src/nn/kernels/pooled_weight_gradient.hpp"
#include "test/harness/pooled_weight_reference.hpp"

namespace halomesh::pooled_weight_reference {

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
// all in memory whose surroundings are unreadable.
template <class S, class T, class Kernel>
void add_sample(const Case& c, const Sample<S, T>& sample, bool first, bool at_end,
                Kernel& gradient) {
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

template <class S, class T, class Kernel>
Gradient run(const Case& c, bool at_end, Kernel& gradient) {
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
inline double gamma(std::int64_t terms) {
  const double nu = static_cast<double>(terms + 2) * std::ldexp(1.0, -24);
  return nu / (1 - nu) * (1 + 1e-6);
}

inline std::int64_t check_near(const std::vector<float>& got, const std::vector<double>& expected,
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

/// `gradient` is a PooledWeightGradient or a SparseWeightGradient made for the case.
template <class S, class T, class Kernel>
std::int64_t expect_gradient_of(const Case& c, Kernel gradient) {
  CAPTURE(c.name);
  Reference expected(c);
  for (unsigned n = 0; n < static_cast<unsigned>(c.batch); ++n)
    expected.add(c, Sample<S, T>(c, 17 + n));
  const Gradient got = run<S, T>(c, true, gradient);
  CHECK(run<S, T>(c, false, gradient) == got);  // new sums have the old bits
  return check_near(got.weight, expected.weight, expected.weight_size, expected.terms) +
         check_near(got.bias, expected.bias, expected.bias_size, expected.terms);
}

}  // namespace halomesh::pooled_weight_reference
