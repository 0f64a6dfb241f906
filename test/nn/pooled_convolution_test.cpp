// Our own forward kernel of few channels against naive pooling of sums rounded to the type that it
// computes in: which of equal elements wins, NaN, infinities, zeros and what is next to them.
#include "src/nn/layers/pooled_convolution.hpp"

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
  std::vector<std::uint8_t> winners(static_cast<std::size_t>(box.volume()));
  kernel.forward(src.data(), box, 0, kSlope, dst.any_view(), {winners.data(), box, 1});
  kernel.forward(src.data(), box, 0, kSlope, evaluated.any_view(), {});
  const float factor = as_computed(weight[0], compute);
  std::int64_t equal = 0, nan = 0;
  for (std::int64_t w = 0; w < kWindows; ++w)
    for (std::int64_t c = 0; c < kFilters; ++c) {
      float best = 0;
      std::int64_t winner = -1;
      for (std::int64_t tap = 0; tap < 8; ++tap) {
        const float sum = std::fma(factor, tap_of(src, w, tap), kBias[static_cast<std::size_t>(c)]);
        const float value = as_computed(sum, compute);
        equal += value == best ? 1 : 0;
        if (winner >= 0 && (std::isnan(best) || !(value > best || std::isnan(value)))) continue;
        best = value;
        winner = tap;
      }
      const std::int64_t at = w * kFilters + c;
      const std::uint8_t won = winners[static_cast<std::size_t>(at)];
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
      CHECK((won & (kSlopeBit - 1)) == winner);
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

}  // namespace
}  // namespace halomesh
