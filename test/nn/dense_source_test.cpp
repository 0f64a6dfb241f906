// SPDX-License-Identifier: Apache-2.0
// Dense, converted and padded input against a naive look at every element, with one buffer for
// boxes of different extents.
#include "src/nn/kernels/dense_source.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace halomesh {
namespace {

const Box kSpan{{0, 2, 3, 1}, {3, 6, 8, 6}};
constexpr std::int64_t kBatch = 2;

// A value that names its position, never 0; its nearest bf16 is another.
std::int16_t count_at(std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h,
                      std::int64_t w) {
  return static_cast<std::int16_t>(1 + (((n * 7 + d) * 9 + h) * 7 + w) * 3 + c);
}

template <class T>
T as_input(std::int16_t count) {
  if constexpr (std::is_same_v<T, Bfloat16>)
    return Bfloat16(static_cast<float>(count));
  else
    return static_cast<T>(count);
}

template <class T>
Tensor coded(DataType type) {
  Tensor tensor(kSpan, kBatch, type);
  const auto view = tensor.any_view().as<T>();
  for (std::int64_t n = 0; n < kBatch; ++n)
    for (std::int64_t d = kSpan.lo[kD]; d < kSpan.hi[kD]; ++d)
      for (std::int64_t h = kSpan.lo[kH]; h < kSpan.hi[kH]; ++h)
        for (std::int64_t w = kSpan.lo[kW]; w < kSpan.hi[kW]; ++w)
          for (std::int64_t c = kSpan.lo[kC]; c < kSpan.hi[kC]; ++c)
            view.at(n, c, d, h, w) = as_input<T>(count_at(n, c, d, h, w));
  return tensor;
}

struct Case {
  Box box;
  Padding padding;
};
// The widest comes first: it leaves values where later ones have zeros.
const std::vector<Case> kCases{
    {kSpan, {}},
    {{{0, 3, 4, 2}, {3, 5, 7, 4}}, {{1, 1, 1}, {1, 1, 1}}},
    {{{0, 2, 3, 1}, {3, 4, 5, 4}}, {{1, 0, 2}, {0, 1, 0}}},
    {{{1, 3, 4, 2}, {3, 5, 7, 4}}, {{0, 1, 1}, {1, 0, 1}}},
    {{{1, 2, 3, 1}, {2, 6, 8, 6}}, {}},
    {{{0, 2, 3, 1}, {3, 6, 5, 6}}, {{0, 1, 0}, {0, 0, 0}}},
    {{{0, 5, 7, 5}, {3, 6, 8, 6}}, {{2, 2, 2}, {0, 1, 2}}},
    {{{0, 3, 3, 1}, {3, 5, 8, 6}}, {}},
};

using Scales = std::vector<ChannelScale>;

float expected(const Case& of, DataType from, bool rounded, const Scales& scales, std::int64_t n,
               std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t w) {
  const Box& b = of.box;
  const bool inside = d >= b.lo[kD] && d < b.hi[kD] && h >= b.lo[kH] && h < b.hi[kH] &&
                      w >= b.lo[kW] && w < b.hi[kW];
  if (!inside) return 0;
  const auto count = static_cast<float>(count_at(n, c, d, h, w));
  float value = count;
  const ChannelScale scale = scales.empty() ? ChannelScale{} : scales[static_cast<std::size_t>(c)];
  if (from == DataType::kInt16)
    value =
        static_cast<float>((std::log1p(static_cast<double>(count)) - scale.mean) / scale.deviation);
  if (from == DataType::kBfloat16) value = static_cast<float>(Bfloat16(count));
  return rounded ? static_cast<float>(Bfloat16(value)) : value;
}

template <class To>
void expect_all(const Tensor& tensor, DataType from, DataType to, DataType precision,
                const Scales& scales) {
  DenseSource source(from, to, precision, scales);
  for (const Case& c : kCases) source.reserve(kSpan, c.box, c.padding);
  Scratch scratch;
  source.take(scratch);
  for (std::int64_t n = 0; n < kBatch; ++n)
    for (const Case& test : kCases) {
      const auto& [before, after] = test.padding;
      const Box& b = test.box;
      const auto* at = static_cast<const To*>(source.read(tensor.any_view(), n, b, test.padding));
      std::int64_t wrong = 0;
      for (std::int64_t d = b.lo[kD] - before[0]; d < b.hi[kD] + after[0]; ++d)
        for (std::int64_t h = b.lo[kH] - before[1]; h < b.hi[kH] + after[1]; ++h)
          for (std::int64_t w = b.lo[kW] - before[2]; w < b.hi[kW] + after[2]; ++w)
            for (std::int64_t c = b.lo[kC]; c < b.hi[kC]; ++c, ++at)
              wrong +=
                  static_cast<float>(*at) != expected(test, from, precision == DataType::kBfloat16,
                                                      scales, n, c, d, h, w)
                      ? 1
                      : 0;
      CAPTURE(b);
      CAPTURE(n);
      CHECK(wrong == 0);
    }
}

template <class From>
void expect_from(DataType from, const Scales& scales = {}) {
  const Tensor tensor = coded<From>(from);
  expect_all<float>(tensor, from, DataType::kFloat32, DataType::kFloat32, scales);
  expect_all<float>(tensor, from, DataType::kFloat32, DataType::kBfloat16, scales);
  expect_all<Bfloat16>(tensor, from, DataType::kBfloat16, DataType::kBfloat16, scales);
}

TEST_CASE("dense source of counts: logarithms with zeros around them") {
  expect_from<std::int16_t>(DataType::kInt16);
}

TEST_CASE("dense source of counts: standardized by channel, with zeros around them") {
  expect_from<std::int16_t>(DataType::kInt16, {{1.5, 0.25}, {0, 1}, {-2.75, 3}});
}

TEST_CASE("dense source of fp32: rounded, with zeros around it") {
  expect_from<float>(DataType::kFloat32);
}

TEST_CASE("dense source of bf16: with zeros around it") {
  expect_from<Bfloat16>(DataType::kBfloat16);
}

}  // namespace
}  // namespace halomesh
