// SPDX-License-Identifier: Apache-2.0
// Dense input of a block: see dense_source.hpp.
#include "src/nn/kernels/dense_source.hpp"

#include <algorithm>
#include <vector>

namespace halomesh {
inline namespace HALOMESH_VECTORS {
namespace {

constexpr auto kToFloat32 = [](auto x) { return static_cast<float>(x); };
constexpr auto kToBfloat16 = [](auto x) { return Bfloat16(static_cast<float>(x)); };
constexpr auto kRounded = [](auto x) { return kToFloat32(kToBfloat16(x)); };

}  // namespace

DenseSource::DenseSource(DataType from, DataType to, DataType precision,
                         std::span<const ChannelScale> scales)
    : from_(from), to_(to), precision_(precision), by_channel_(!scales.empty()) {
  if (from != DataType::kInt16 || (precision == DataType::kFloat32 && !by_channel_)) return;
  const std::vector<float> scaled = scaled_logarithms(scales);
  const std::span<const float> tables =
      by_channel_ ? std::span<const float>(scaled) : std::span<const float>(log_table());
  if (to == DataType::kBfloat16) {
    short_tables_ = AlignedBuffer<Bfloat16>(std::ssize(tables));
    std::transform(tables.begin(), tables.end(), short_tables_.data(), kToBfloat16);
  } else {
    tables_ = AlignedBuffer<float>(std::ssize(tables));
    if (precision == DataType::kFloat32)
      std::copy(tables.begin(), tables.end(), tables_.data());
    else
      std::transform(tables.begin(), tables.end(), tables_.data(), kRounded);
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
  if (!in_place) bytes_ = std::max(bytes_, bytes);
}

// Copies rows where the box has all channels, so that they are contiguous, otherwise pixels.
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
    const std::int64_t run = channels == view.span.extent(kC) ? length : channels;
    const From* from = view.data + view.offset(n, box.lo[kC], d, h, box.lo[kW]);
    for (std::int64_t at = 0; at < length; at += run, from += view.span.extent(kC))
      convert(from, run, to + before + at);
    std::fill_n(to + before + length, after, To{});
  }
}

template <class To, class Convert>
void DenseSource::fill_values(AnyConstView view, std::int64_t n, const Box& box,
                              const Padding& padding, const To* tables, const Convert& convert) {
  const auto with_each = [](const auto& value_of) {
    return [value_of](const auto* x, std::int64_t size, To* y) {
      for (std::int64_t i = 0; i < size; ++i) y[i] = value_of(x[i]);
    };
  };
  // Readers reject negative counts; the mask keeps any value within the table.
  constexpr unsigned kMostCounts = 0x7fffU;
  const auto look_up = [tables](std::int16_t x) {
    return tables[static_cast<unsigned>(x) & kMostCounts];
  };
  const auto by_channel = [first = tables + box.lo[kC] * (std::int64_t{kMostCounts} + 1),
                           channels = box.extent(kC)](const std::int16_t* x, std::int64_t size,
                                                      To* y) {
    for (std::int64_t i = 0; i < size; i += channels)
      for (std::int64_t c = 0; c < channels; ++c)
        y[i + c] = first[c * (kMostCounts + 1) + (static_cast<unsigned>(x[i + c]) & kMostCounts)];
  };
  if (from_ == DataType::kInt16 && by_channel_)
    fill<std::int16_t, To>(view.as<std::int16_t>(), n, box, padding, by_channel);
  else if (from_ == DataType::kInt16)
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
    fill_values<Bfloat16>(view, n, box, padding, short_tables_.data(), kToBfloat16);
  else if (precision_ == DataType::kFloat32)
    fill_values<float>(view, n, box, padding, by_channel_ ? tables_.data() : log_table().data(),
                       kToFloat32);
  else
    fill_values<float>(view, n, box, padding, tables_.data(), kRounded);
  return buffer_.data();
}

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
