// SPDX-License-Identifier: Apache-2.0
// Our own forward kernel of few channels against naive pooling of sums rounded to the type that it
// computes in: which of equal elements wins, NaN, infinities, zeros and what is next to them.
#include "src/nn/kernels/pooled_convolution.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "rng.hpp"

namespace halomesh {
namespace {

constexpr float kSlope = 0.25F;
constexpr std::array<float, 7> kBias{1, -1, 0, 0x1p-130F, -0x1p-130F, 1 + 0x1p-8F, -1 - 0x3p-9F};
constexpr auto kFilters = static_cast<std::int64_t>(kBias.size());
constexpr std::int64_t kWindows = 600;

float as_computed(float sum, DataType compute) {
  return compute == DataType::kBfloat16 ? static_cast<float>(Bfloat16(sum)) : sum;
}

// Values of bf16: steps of 1/8 of the distance between bf16 around 1, or a mixture of extremes.
std::vector<float> planes() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr std::array<float, 8> kExtremes{std::numeric_limits<float>::quiet_NaN(),
                                           kInfinity,
                                           -kInfinity,
                                           0.0F,
                                           -0.0F,
                                           0x1p-133F,  // the smallest bf16 above 0
                                           -0x1p-133F,
                                           std::numeric_limits<float>::lowest()};
  const CounterRng rng(31, RandomUse::kSynth, 0);
  std::vector<float> values;
  for (std::int64_t i = 0; i < 8 * kWindows; ++i) {
    const std::uint32_t bits = rng.block(static_cast<std::uint64_t>(i))[0];
    const bool extreme = i / 4 % kWindows % 3 == 0 && bits % 3 == 0;
    const float step = static_cast<float>(static_cast<int>(bits >> 27U) - 16) * 0x1p-10F;
    values.push_back(as_computed(extreme ? kExtremes[bits >> 29U] : step, DataType::kBfloat16));
  }
  return values;
}

// Element `tap` of window w, where two planes of two rows hold all windows side by side.
float tap_of(const std::vector<float>& src, std::int64_t w, std::int64_t tap) {
  return src[static_cast<std::size_t>(tap / 2 * 2 * kWindows + 2 * w + tap % 2)];
}

void expect_pooled(DataType compute) {
  const Box box = Box::whole({kFilters, 1, 1, kWindows});
  PooledConvolution kernel(compute, 1, kFilters, {1, 1, 1});
  const std::vector<float> weight(kBias.size(), 1 + 0x1p-10F), src = planes();  // 1 as bf16
  kernel.load_weights(weight.data(), kBias.data());
  Tensor dst(box, 1), evaluated(box, 1);
  std::vector<std::uint8_t> argmax(static_cast<std::size_t>(box.volume()));
  kernel.forward(src.data(), box, 0, kSlope, dst.any_view(), {argmax.data(), box, 1});
  kernel.forward(src.data(), box, 0, kSlope, evaluated.any_view(), {});
  const float factor = as_computed(weight[0], compute);
  std::int64_t equal = 0, nan = 0;
  for (std::int64_t w = 0; w < kWindows; ++w)
    for (std::int64_t c = 0; c < kFilters; ++c) {
      float best = 0;
      std::int64_t largest = -1;
      for (std::int64_t tap = 0; tap < 8; ++tap) {
        const float sum = std::fma(factor, tap_of(src, w, tap), kBias[static_cast<std::size_t>(c)]);
        const float value = as_computed(sum, compute);
        equal += value == best ? 1 : 0;
        if (largest >= 0 && (std::isnan(best) || !(value > best || std::isnan(value)))) continue;
        best = value;
        largest = tap;
      }
      const std::int64_t at = w * kFilters + c;
      const std::uint8_t won = argmax[static_cast<std::size_t>(at)];
      CHECK((won & kSlopeBit) == (best > 0 ? 0 : kSlopeBit));
      const float got = dst.view().data[at], evaluation = evaluated.view().data[at];
      if (std::isnan(best)) {
        CHECK(std::isnan(got));
        CHECK(std::isnan(evaluation));
        CHECK(std::isnan(std::fma(factor, tap_of(src, w, won & (kSlopeBit - 1)), 0.0F)));
        ++nan;
        continue;
      }
      CHECK(got == (best > 0 ? best : best * kSlope));
      CHECK(evaluation == got);
      CHECK((won & (kSlopeBit - 1)) == largest);
    }
  CHECK(equal > kWindows);
  CHECK(nan > 50);
}

TEST_CASE("pooled convolution in fp32 picks the first of the largest elements") {
  expect_pooled(DataType::kFloat32);
}

TEST_CASE("pooled convolution in bf16 picks the first of those that round to the largest") {
  expect_pooled(DataType::kBfloat16);
}

// Values of magnitudes up to 2^exponents apart, so that the order of their sum matters.
std::vector<float> drawn(std::uint32_t stream, std::int64_t size, int exponents) {
  const CounterRng rng(32, RandomUse::kSynth, stream);
  std::vector<float> values;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto bits = rng.block(static_cast<std::uint64_t>(i));
    const float fraction = static_cast<float>(static_cast<std::int32_t>(bits[0])) * 0x1p-31F;
    values.push_back(std::ldexp(fraction, static_cast<int>(bits[1] % 16) * exponents / 16));
  }
  return values;
}

struct Pooled {
  std::vector<float> values;
  std::vector<std::uint8_t> argmax;
  friend bool operator==(const Pooled&, const Pooled&) = default;
};

// Of a drawn sample.
Pooled pooled_by(bool dots, std::int64_t channels, std::int64_t filters, const Spatial& kernel) {
  const Box box = Box::whole({filters, 2, 3, 5});
  std::int64_t size = channels;
  for (std::size_t a = 0; a < 3; ++a) size *= 2 * box.extent(a + 1) + kernel[a] - 1;
  const std::vector<float> src = drawn(0, size, 24), bias = drawn(1, filters, 24);
  const std::vector<float> weight =
      drawn(2, filters * channels * kernel[0] * kernel[1] * kernel[2], 24);
  std::vector<Bfloat16> rounded(src.begin(), src.end());
  const std::vector<float> floats(rounded.begin(), rounded.end());

  PooledConvolution convolution(DataType::kBfloat16, channels, filters, kernel, dots);
  convolution.load_weights(weight.data(), bias.data());
  Tensor dst(box, 1);
  Pooled result{{}, std::vector<std::uint8_t>(static_cast<std::size_t>(box.volume()))};
  const bool reads_short = convolution.src_type() == DataType::kBfloat16;
  convolution.forward(reads_short ? static_cast<const void*>(rounded.data()) : floats.data(), box,
                      0, kSlope, dst.any_view(), {result.argmax.data(), box, 1});
  result.values.assign(dst.view().data, dst.view().data + box.volume());
  return result;
}

// 1 - 2^24 + 2^24 is 1, but 1 + 2^24 - 2^24 is 0 in fp32.
TEST_CASE("pooled convolution in bf16 adds the second of two channels first") {
  const std::vector<float> weight{0x1p24F, -0x1p24F}, bias{1}, ones(16, 1.0F);
  const std::vector<Bfloat16> short_ones(ones.begin(), ones.end());
  for (const bool dots : {true, false}) {
    PooledConvolution convolution(DataType::kBfloat16, 2, 1, {1, 1, 1}, dots);
    convolution.load_weights(weight.data(), bias.data());
    const bool reads_short = convolution.src_type() == DataType::kBfloat16;
    const Box box = Box::whole({1, 1, 1, 1});
    Tensor dst(box, 1);
    convolution.forward(reads_short ? static_cast<const void*>(short_ones.data()) : ones.data(),
                        box, 0, kSlope, dst.any_view(), {});
    CHECK(dst.view().data[0] == 1);
  }
}

bool takes_dots(std::int64_t channels) {
  return PooledConvolution(DataType::kBfloat16, channels, 1, {1, 1, 1}, true).src_type() ==
         DataType::kBfloat16;
}

TEST_CASE("pooled convolution by dot products gives the bits of multiply-adds") {
  for (const std::int64_t channels : {2, 4, 6})
    for (const std::int64_t filters : {5, 16, 37})
      for (const Spatial& kernel : {Spatial{1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {1, 3, 2}}) {
        CAPTURE(channels);
        CAPTURE(filters);
        CAPTURE(kernel);
        CHECK((pooled_by(true, channels, filters, kernel) ==
               pooled_by(false, channels, filters, kernel)));
      }
}

TEST_CASE("pooled convolution uses dot products only for pairs of channels in bf16") {
  CHECK(!takes_dots(1));
  CHECK(!takes_dots(3));
  const PooledConvolution wide(DataType::kFloat32, 4, 1, {1, 1, 1}, true);
  CHECK(wide.src_type() == DataType::kFloat32);
#if defined(__AVX512BF16__)
  CHECK(takes_dots(2));
  CHECK(takes_dots(4));
#else
  CHECK(!takes_dots(4));
#endif
}

}  // namespace
}  // namespace halomesh
