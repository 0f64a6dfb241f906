// SPDX-License-Identifier: Apache-2.0
// The gradient of a convolution under disjoint max pooling by its definition, in double precision,
// with cases and their random values. Must not use the code under test.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "shape.hpp"

namespace halomesh::pooled_weight_reference {

struct Case {
  std::string name;
  std::int64_t ci = 4, co = 32;
  Spatial kernel{2, 2, 2}, pool{2, 2, 2}, src{8, 8, 8};
  Spatial pad_before{}, pad_after{};  // padding of the convolution
  Spatial pool_before{};              // padding before the pooling windows
  std::int64_t batch = 1, planes_a_chunk = 1 << 20;
  int threads = 2;

  Spatial dst() const {  // the convolution's output
    Spatial n;
    for (std::size_t a = 0; a < 3; ++a)
      n[a] = src[a] + pad_before[a] + pad_after[a] - kernel[a] + 1;
    return n;
  }
  Spatial pooled() const {  // windows that begin inside; the last may be cut
    Spatial n = dst();
    for (std::size_t a = 0; a < 3; ++a) n[a] = (n[a] + pool_before[a] + pool[a] - 1) / pool[a];
    return n;
  }
  std::int64_t weights() const { return co * ci * kernel[0] * kernel[1] * kernel[2]; }
};

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
inline std::int64_t volume(const Spatial& n) { return n[0] * n[1] * n[2]; }

constexpr float kSlope = 0.3F;          // the slope of the activation
constexpr std::uint8_t kSloped = 0x80;  // marks argmax to which it applies

// One sample's values: argmax are drawn among the taps inside the convolution's output.
template <class S, class T>
struct Sample {
  std::vector<S> src;
  std::vector<T> diff;
  std::vector<std::uint8_t> argmax;

  Sample(const Case& c, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(-1, 1);
    const Spatial dst = c.dst(), pooled = c.pooled();
    for (std::int64_t i = 0; i < volume(c.src) * c.ci; ++i) src.push_back(S(value(random)));
    const auto draw = [&](std::size_t axis, std::int64_t p) {
      const std::int64_t first = p * c.pool[axis] - c.pool_before[axis];
      const std::int64_t lo = std::max<std::int64_t>(-first, 0);
      const std::int64_t hi = std::min(dst[axis] - first, c.pool[axis]);
      return std::uniform_int_distribution<std::int64_t>(lo, hi - 1)(random);
    };
    for (std::int64_t d = 0; d < pooled[0]; ++d)
      for (std::int64_t h = 0; h < pooled[1]; ++h)
        for (std::int64_t w = 0; w < pooled[2]; ++w)
          for (std::int64_t o = 0; o < c.co; ++o) {
            const std::int64_t tap = (draw(0, d) * c.pool[1] + draw(1, h)) * c.pool[2] + draw(2, w);
            const int sloped = (random() & 1U) != 0 ? kSloped : 0;
            argmax.push_back(static_cast<std::uint8_t>(tap + sloped));
            diff.push_back(T(value(random)));
          }
  }
};

// Gradients, each with the sum of the magnitudes of its terms.
struct Reference {
  std::vector<double> weight, weight_size, bias, bias_size;
  std::int64_t terms = 0;

  explicit Reference(const Case& c)
      : weight(at(c.weights())), weight_size(weight), bias(at(c.co)), bias_size(bias) {}

  // Un-pools and takes the convolution's weight gradient by its definition.
  template <class S, class T>
  void add(const Case& c, const Sample<S, T>& sample) {
    const Spatial dst = c.dst(), pooled = c.pooled();
    std::vector<double> diff(at(volume(dst) * c.co));
    for (std::int64_t i = 0; i < volume(pooled) * c.co; ++i) {
      const std::int64_t p = i / c.co, tap = sample.argmax[at(i)] & 0x7f;
      const std::int64_t d = p / (pooled[1] * pooled[2]) * c.pool[0] - c.pool_before[0] +
                             tap / (c.pool[1] * c.pool[2]);
      const std::int64_t h =
          p / pooled[2] % pooled[1] * c.pool[1] - c.pool_before[1] + tap / c.pool[2] % c.pool[1];
      const std::int64_t w = p % pooled[2] * c.pool[2] - c.pool_before[2] + tap % c.pool[2];
      const bool sloped = (sample.argmax[at(i)] & kSloped) != 0;
      diff[at(((d * dst[1] + h) * dst[2] + w) * c.co + i % c.co)] =
          double{static_cast<float>(sample.diff[at(i)])} * (sloped ? double{kSlope} : 1.0);
    }
    terms += volume(pooled);
    for (std::int64_t i = 0; i < volume(dst) * c.co; ++i)
      if (diff[at(i)] != 0) add_voxel(c, sample.src, i / c.co, i % c.co, diff[at(i)]);
  }

  template <class S>
  void add_voxel(const Case& c, const std::vector<S>& src, std::int64_t voxel, std::int64_t o,
                 double g) {
    const Spatial dst = c.dst();
    const Spatial q{voxel / (dst[1] * dst[2]), voxel / dst[2] % dst[1], voxel % dst[2]};
    bias[at(o)] += g;
    bias_size[at(o)] += std::abs(g);
    for (std::int64_t k = 0; k < volume(c.kernel); ++k) {
      const std::int64_t d = q[0] + k / (c.kernel[1] * c.kernel[2]) - c.pad_before[0];
      const std::int64_t h = q[1] + k / c.kernel[2] % c.kernel[1] - c.pad_before[1];
      const std::int64_t w = q[2] + k % c.kernel[2] - c.pad_before[2];
      if (d < 0 || h < 0 || w < 0 || d >= c.src[0] || h >= c.src[1] || w >= c.src[2]) continue;
      for (std::int64_t i = 0; i < c.ci; ++i) {
        const S value = src[at(((d * c.src[1] + h) * c.src[2] + w) * c.ci + i)];
        const double product = g * double{static_cast<float>(value)};
        weight[at((o * c.ci + i) * volume(c.kernel) + k)] += product;
        weight_size[at((o * c.ci + i) * volume(c.kernel) + k)] += std::abs(product);
      }
    }
  }
};

}  // namespace halomesh::pooled_weight_reference
