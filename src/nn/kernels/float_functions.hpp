// SPDX-License-Identifier: Apache-2.0
// The exponential function and its relatives in fp32, of arithmetic and selections alone, so that
// compilers vectorize loops that call them, which they do not with the functions of the C library.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace halomesh {

/// e^x = 2^n (1 + rest) with |log(1 + rest)| <= log(2) / 2.
struct ReducedExp {
  std::int32_t n;
  float rest;

  /// Needs |x| < 2^21; a NaN is in the rest.
  [[gnu::always_inline]] explicit ReducedExp(float x) {
    constexpr float kRound = 0x1.8p23F;  // adding it rounds to a whole number
    const float sum = x * 0x1.715476p0F + kRound, whole = sum - kRound;
    n = std::bit_cast<std::int32_t>(sum) - std::bit_cast<std::int32_t>(kRound);
    // The logarithm of 2 in two parts; products with the first are exact.
    const float r = (x - whole * 0x1.62e4p-1F) - whole * 0x1.7f7d1cp-20F;
    // The Taylor series: the first term left out is below 2^-27 of the sum.
    float series = 1 / 720.F + r / 5040.F;
    series = 1 / 24.F + r * (1 / 120.F + r * series);
    rest = r + r * r * (1 / 2.F + r * (1 / 6.F + r * series));
  }
  /// 2^k for -127 < k < 128.
  [[gnu::always_inline]] static float power_of_2(std::int32_t k) {
    return std::bit_cast<float>((k + 127) << 23);
  }
};

/// Selects instead of std::min and std::max: a NaN stays one.
[[gnu::always_inline]] inline float clamped(float x, float low, float high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

/// e^x to 2 units in the last place; 0 and infinity beyond the range of fp32.
[[gnu::always_inline]] inline float exp_of(float x) {
  const ReducedExp e(clamped(x, -104, 89));
  const std::int32_t half = e.n >> 1;  // 2^n itself may leave the range
  return (1 + e.rest) * ReducedExp::power_of_2(half) * ReducedExp::power_of_2(e.n - half);
}

/// e^x - 1 to 3 units in the last place, also near 0. At least -1 + 2^-25; large from 87 on.
[[gnu::always_inline]] inline float expm1_of(float x) {
  const ReducedExp e(clamped(x, -50, 87));
  const float scale = ReducedExp::power_of_2(e.n);
  return scale * e.rest + (scale - 1);
}

/// tanh(x) to 4 units in the last place, also near 0.
[[gnu::always_inline]] inline float tanh_of(float x) {
  const float e = expm1_of(2 * (std::fabs(x) > 10 ? 10 : std::fabs(x)));
  return std::copysign(e / (e + 2), x);
}

/// 1 / (1 + e^-x).
[[gnu::always_inline]] inline float sigmoid_of(float x) { return 1 / (1 + exp_of(-x)); }

/// The density of the normal distribution, and its integral from minus infinity to x.
struct Normal {
  float density, integral;

  /// The integral to -|x| is the density times a function that falls slowly: a polynomial in
  /// 1 / (1 + 0.3 |x|), fitted to it to 2^-22.
  [[gnu::always_inline]] explicit Normal(float x) {
    const float power = exp_of(-0.5F * x * x), t = 1 / (1 + 0.3F * std::fabs(x));
    float tail = 0.035423886F;
    tail = tail * t - 0.156159043F;
    tail = tail * t + 0.204557762F;
    tail = tail * t - 0.0520348661F;
    tail = tail * t + 0.127692193F;
    tail = tail * t + 0.100175828F;
    tail = tail * t + 0.120712154F;
    tail = (tail * t + 0.119632006F) * t * power;
    density = 0.398942280F * power;
    integral = x > 0 ? 1 - tail : tail;
  }
};

}  // namespace halomesh
