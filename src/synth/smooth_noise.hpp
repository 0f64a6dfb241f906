// SPDX-License-Identifier: Apache-2.0
// Smooth random functions of space, at any resolution: random values on a lattice, interpolated.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "rng.hpp"

namespace halomesh {

/// A function of three coordinates with values in about [-1, 1] that varies over a distance of 1.
/// Continuous, and with a continuous slope. A pure function of its generator.
class SmoothNoise {
 public:
  /// `period` is the number of units after which the last coordinate repeats; 0: never.
  explicit SmoothNoise(const CounterRng& rng, std::int64_t period = 0)
      : rng_(rng), period_(period) {}

  float operator()(double x, double y, double z) const {
    const std::array<double, 3> at{x, y, z};
    std::array<std::int64_t, 3> cell{};
    std::array<double, 3> weight{};
    for (std::size_t a = 0; a < 3; ++a) {
      const double floor = std::floor(at[a]);
      const double t = at[a] - floor;
      cell[a] = static_cast<std::int64_t>(floor);
      weight[a] = t * t * (3 - 2 * t);
    }
    double sum = 0;
    for (std::int64_t corner = 0; corner < 8; ++corner) {
      double share = 1;
      std::array<std::int64_t, 3> node = cell;
      for (std::size_t a = 0; a < 3; ++a) {
        const std::int64_t upper = corner >> a & 1;
        node[a] += upper;
        share *= upper == 1 ? weight[a] : 1 - weight[a];
      }
      sum += share * value_at(node);
    }
    return static_cast<float>(sum);
  }

 private:
  double value_at(const std::array<std::int64_t, 3>& node) const {
    constexpr std::int64_t kSpan = 1 << 16;  // nodes along each axis before values repeat
    const auto wrapped = [](std::int64_t i, std::int64_t n) { return (i % n + n) % n; };
    const std::int64_t last = period_ > 0 ? wrapped(node[2], period_) : wrapped(node[2], kSpan);
    const std::int64_t index =
        (wrapped(node[0], kSpan) * kSpan + wrapped(node[1], kSpan)) * kSpan + last;
    return 2.0 * rng_.uniform(static_cast<std::uint64_t>(index)) - 1.0;
  }

  CounterRng rng_;
  std::int64_t period_;
};

/// A generator that delivers one number after the other.
class DrawSequence {
 public:
  explicit DrawSequence(const CounterRng& rng) : rng_(rng) {}
  double between(double low, double high) {
    return low + (high - low) * rng_.uniform_double(next_++);
  }
  std::int64_t integer(std::int64_t low, std::int64_t high) {  // both included
    return low + static_cast<std::int64_t>(between(0, static_cast<double>(high - low + 1)));
  }

 private:
  CounterRng rng_;
  std::uint64_t next_ = 0;
};

/// A normal number for this index, by the method of Box and Muller.
inline float normal_at(const CounterRng& rng, std::int64_t index) {
  const auto bits = rng.block(static_cast<std::uint64_t>(index));
  const float u = (static_cast<float>(bits[0] >> 8U) + 0.5F) * 0x1p-24F;
  const float v = static_cast<float>(bits[1] >> 8U) * 0x1p-24F;
  return std::sqrt(-2.0F * std::log(u)) * std::cos(6.2831853F * v);
}

}  // namespace halomesh
