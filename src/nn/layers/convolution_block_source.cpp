// Dense input of a block: see convolution_block_source.hpp.
#include "src/nn/layers/convolution_block_source.hpp"

#include <algorithm>

#include "src/nn/counts.hpp"

namespace halomesh {
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

void DenseSource::reserve(const Box& span, const Box& box) {
  const std::int64_t bytes = box.volume() * size_of(to_);
  const bool in_place = is_as_wanted() && ConstView{nullptr, span, 1}.is_dense(box);
  if (!in_place && bytes > buffer_.size()) buffer_ = AlignedBuffer<std::byte>(bytes);
}

// Row by row; a row of pixels is contiguous, as the box has all channels.
template <class From, class To, class Convert>
void DenseSource::fill(TensorView<const From> view, std::int64_t n, const Box& box,
                       const Convert& convert) {
  To* const dense = reinterpret_cast<To*>(buffer_.data());  // NOLINT: aligned for any element
  const std::int64_t height = box.extent(kH), rows = box.extent(kD) * height;
  const std::int64_t length = box.extent(kW) * box.extent(kC);
#pragma omp parallel for schedule(static) if (rows * length > 32768)
  for (std::int64_t row = 0; row < rows; ++row)
    convert(view.data + view.offset(n, box.lo[kC], box.lo[kD] + row / height,
                                    box.lo[kH] + row % height, box.lo[kW]),
            length, dense + row * length);
}

template <class To, class Convert>
void DenseSource::fill_values(AnyConstView view, std::int64_t n, const Box& box,
                              const To* logarithms, const Convert& convert) {
  const auto with_each = [](const auto& value_of) {
    return [value_of](const auto* x, std::int64_t size, To* y) {
      for (std::int64_t i = 0; i < size; ++i) y[i] = value_of(x[i]);
    };
  };
  // Readers refuse negative counts; the mask keeps whatever comes inside of the table.
  const auto look_up = [logarithms](std::int16_t x) {
    return logarithms[static_cast<unsigned>(x) & 0x7fffU];
  };
  if (from_ == DataType::kInt16)
    fill<std::int16_t, To>(view.as<std::int16_t>(), n, box, with_each(look_up));
  else if (from_ == DataType::kBfloat16)
    fill<Bfloat16, To>(view.as<Bfloat16>(), n, box, with_each(convert));
  else
    fill<float, To>(view.as<float>(), n, box, with_each(convert));
}

const void* DenseSource::read(AnyConstView view, std::int64_t n, const Box& box) {
  if (is_as_wanted() && view.is_dense(box)) return view.begin_of(n, box);
  if (to_ == DataType::kBfloat16)
    fill_values<Bfloat16>(view, n, box, short_logarithms_.data(), kToBfloat16);
  else if (precision_ == DataType::kFloat32)
    fill_values<float>(view, n, box, log_table().data(), kToFloat32);
  else
    fill_values<float>(view, n, box, rounded_logarithms_.data(), kRounded);
  return buffer_.data();
}

}  // namespace halomesh
