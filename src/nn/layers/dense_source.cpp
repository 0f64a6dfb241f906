// SPDX-License-Identifier: Apache-2.0
// Dense input of a block: see dense_source.hpp.
#include "src/nn/layers/dense_source.hpp"

#include <algorithm>

#include "src/nn/counts.hpp"

namespace halomesh::inline HALOMESH_ISA {
namespace {

constexpr auto kToFloat32 = [](auto x) { return static_cast<float>(x); };
constexpr auto kToBfloat16 = [](auto x) { return Bfloat16(static_cast<float>(x)); };
constexpr auto kRounded = [](auto x) { return kToFloat32(kToBfloat16(x)); };

}  // namespace

DenseSource::DenseSource(DataType from, DataType to, DataType precision)
    : from_(from), to_(to), precision_(precision) {
  if (from != DataType::kInt16 || precision != DataType::kBfloat16) return;
  const auto logarithms = log_table();
  const auto size = static_cast<std::int64_t>(logarithms.size());
  if (to == DataType::kBfloat16) {
    short_logarithms_ = AlignedBuffer<Bfloat16>(size);
    std::transform(logarithms.begin(), logarithms.end(), short_logarithms_.data(), kToBfloat16);
  } else {
    rounded_logarithms_ = AlignedBuffer<float>(size);
    std::transform(logarithms.begin(), logarithms.end(), rounded_logarithms_.data(), kRounded);
  }
}

// Whether inputs have the type and the precision of results.
bool DenseSource::is_as_wanted() const {
  return from_ == to_ && (precision_ == to_ || precision_ == DataType::kFloat32);
}

void DenseSource::reserve(const Box& span, const Box& box, const Padding& padding) {
  std::int64_t bytes = box.extent(kC) * size_of(to_);
  for (std::size_t a = 0; a < 3; ++a)
    bytes *= padding.before[a] + box.extent(a + 1) + padding.after[a];
  const bool in_place =
      is_as_wanted() && padding.none() && ConstView{nullptr, span, 1}.is_dense(box);
  if (!in_place && bytes > buffer_.size()) buffer_ = AlignedBuffer<std::byte>(bytes);
}

// Row by row; a row of pixels is contiguous, as the box has all channels.
template <class From, class To, class Convert>
void DenseSource::fill(TensorView<const From> view, std::int64_t n, const Box& box,
                       const Padding& padding, const Convert& convert) {
  To* const dense = reinterpret_cast<To*>(buffer_.data());  // NOLINT: aligned for any element
  const auto [above_d, above_h, left] = padding.before;
  const std::int64_t planes = above_d + box.extent(kD) + padding.after[0];
  const std::int64_t height = above_h + box.extent(kH) + padding.after[1], rows = planes * height;
  const std::int64_t channels = box.extent(kC), length = box.extent(kW) * channels;
  const std::int64_t before = left * channels, after = padding.after[2] * channels;
  const std::int64_t step = before + length + after;
#pragma omp parallel for schedule(static) if (rows * step > 32768)
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t d = box.lo[kD] + row / height - padding.before[0];
    const std::int64_t h = box.lo[kH] + row % height - padding.before[1];
    To* const to = dense + row * step;
    if (d < box.lo[kD] || d >= box.hi[kD] || h < box.lo[kH] || h >= box.hi[kH]) {
      std::fill_n(to, step, To{});
      continue;
    }
    std::fill_n(to, before, To{});
    convert(view.data + view.offset(n, box.lo[kC], d, h, box.lo[kW]), length, to + before);
    std::fill_n(to + before + length, after, To{});
  }
}

template <class To, class Convert>
void DenseSource::fill_values(AnyConstView view, std::int64_t n, const Box& box,
                              const Padding& padding, const To* logarithms,
                              const Convert& convert) {
  const auto with_each = [](const auto& value_of) {
    return [value_of](const auto* x, std::int64_t size, To* y) {
      for (std::int64_t i = 0; i < size; ++i) y[i] = value_of(x[i]);
    };
  };
  // Readers reject negative counts; the mask keeps any value within the table.
  const auto look_up = [logarithms](std::int16_t x) {
    return logarithms[static_cast<unsigned>(x) & 0x7fffU];
  };
  if (from_ == DataType::kInt16)
    fill<std::int16_t, To>(view.as<std::int16_t>(), n, box, padding, with_each(look_up));
  else if (from_ == DataType::kBfloat16)
    fill<Bfloat16, To>(view.as<Bfloat16>(), n, box, padding, with_each(convert));
  else
    fill<float, To>(view.as<float>(), n, box, padding, with_each(convert));
}

const void* DenseSource::read(AnyConstView view, std::int64_t n, const Box& box,
                              const Padding& padding) {
  if (is_as_wanted() && padding.none() && view.is_dense(box)) return view.begin_of(n, box);
  if (to_ == DataType::kBfloat16)
    fill_values<Bfloat16>(view, n, box, padding, short_logarithms_.data(), kToBfloat16);
  else if (precision_ == DataType::kFloat32)
    fill_values<float>(view, n, box, padding, log_table().data(), kToFloat32);
  else
    fill_values<float>(view, n, box, padding, rounded_logarithms_.data(), kRounded);
  return buffer_.data();
}

}  // namespace halomesh::inline HALOMESH_ISA
