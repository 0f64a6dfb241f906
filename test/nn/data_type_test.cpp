// SPDX-License-Identifier: Apache-2.0
// Element types: rounding to bfloat16, views that know their type, and their moves.
#include "src/nn/data_type.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "src/nn/pack.hpp"

namespace halomesh {
namespace {

// The nearest bfloat16 by search among the two neighbours, ties to the even one.
float nearest(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const float below = std::bit_cast<float>(word & 0xffff0000U);
  const float above = std::bit_cast<float>((word & 0xffff0000U) + 0x10000U);
  const double down = std::abs(static_cast<double>(value) - below),
               up = std::abs(static_cast<double>(above) - value);
  if (down != up) return down < up ? below : above;
  return (word & 0x10000U) == 0 ? below : above;
}

const Box kSpan{{0, 2, 3, 1}, {3, 4, 8, 5}}, kInner{{1, 2, 4, 2}, {3, 4, 6, 4}};

}  // namespace

TEST_CASE("bfloat16: every rounding goes to the nearest, ties to even") {
  std::int64_t compared = 0;
  for (std::uint32_t word = 0; word < 0x7f000000U; word += 0x1fffU, ++compared) {
    const float value = std::bit_cast<float>(word);
    if (static_cast<float>(Bfloat16(value)) != nearest(value)) CHECK(value == nearest(value));
    if (static_cast<float>(Bfloat16(-value)) != -nearest(value)) CHECK(value == -nearest(value));
  }
  for (const std::uint32_t tie : {0x3f808000U, 0x3f818000U, 0x00008000U}) {
    const float value = std::bit_cast<float>(tie);
    CHECK(static_cast<float>(Bfloat16(value)) == nearest(value));
    ++compared;
  }
  CHECK(compared > 200000);
  CHECK(std::isnan(static_cast<float>(Bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isnan(static_cast<float>(Bfloat16(std::bit_cast<float>(0x7f800001U)))));
  CHECK(std::isinf(static_cast<float>(Bfloat16(std::numeric_limits<float>::max()))));
}

TEST_CASE("a view of one type is refused as another") {
  const Tensor tensor(kSpan, 1, DataType::kBfloat16);
  CHECK(tensor.any_view().as<Bfloat16>().span == kSpan);
  CHECK_THROWS_AS(tensor.any_view().as<float>(), Error);
  CHECK_THROWS_AS(tensor.view(), Error);
}

TEST_CASE("boxes of bf16 are copied exactly and added with one rounding") {
  const Tensor from(kSpan, 2, DataType::kBfloat16), to(kSpan, 2, DataType::kBfloat16);
  const auto x = from.any_view().as<Bfloat16>(), y = to.any_view().as<Bfloat16>();
  const std::int64_t size = 2 * kSpan.volume();
  for (std::int64_t i = 0; i < size; ++i) {
    x.data[i] = Bfloat16(1.0f + static_cast<float>(i % 128) / 128);
    y.data[i] = Bfloat16(static_cast<float>(i % 7) * 100);
  }
  std::vector<Bfloat16> dense(static_cast<std::size_t>(2 * kInner.volume())),
      before(y.data, y.data + size);
  auto* const bytes = reinterpret_cast<std::byte*>(dense.data());
  CHECK(pack(from.any_view(), kInner, bytes) == 2 * kInner.volume());
  CHECK(unpack_add(bytes, kInner, to.any_view()) == 2 * kInner.volume());
  std::int64_t inside = 0;
  for (std::int64_t n = 0; n < 2; ++n)
    for (std::int64_t d = 2; d < 4; ++d)
      for (std::int64_t h = 3; h < 8; ++h)
        for (std::int64_t w = 1; w < 5; ++w)
          for (std::int64_t c = 0; c < 3; ++c) {
            const std::int64_t at = y.offset(n, c, d, h, w);
            const bool in = c >= 1 && h >= 4 && h < 6 && w >= 2 && w < 4;
            const float old = static_cast<float>(before[static_cast<std::size_t>(at)]);
            const float add = in ? static_cast<float>(x.data[at]) : 0.0f;
            CHECK(y.data[at] == Bfloat16(old + add));
            inside += in ? 1 : 0;
          }
  CHECK(inside == 2 * kInner.volume());
  CHECK(unpack_copy(bytes, kInner, to.any_view()) == 2 * kInner.volume());
  CHECK(y.at(1, 2, 3, 5, 3) == x.at(1, 2, 3, 5, 3));
  clear(to.any_view(), kInner);
  CHECK(y.at(1, 2, 3, 5, 3) == Bfloat16(0));
  CHECK(y.at(1, 0, 3, 5, 3) == before[static_cast<std::size_t>(y.offset(1, 0, 3, 5, 3))]);
}

}  // namespace halomesh
