// Dense input of a block: see convolution_block_source.hpp.
#include "src/nn/layers/convolution_block_source.hpp"

#include <algorithm>

#include "src/nn/counts.hpp"

namespace halomesh {

DenseSource::DenseSource(DataType from, DataType to) : from_(from), to_(to) {
  if (from != DataType::kInt16 || to != DataType::kBfloat16) return;
  const auto logarithms = log_table();
  short_logarithms_ = AlignedBuffer<Bfloat16>(static_cast<std::int64_t>(logarithms.size()));
  std::transform(logarithms.begin(), logarithms.end(), short_logarithms_.data(),
                 [](float value) { return Bfloat16(value); });
}

void DenseSource::reserve(const Box& span, const Box& box) {
  const std::int64_t bytes = box.volume() * size_of(to_);
  const bool in_place = from_ == to_ && ConstView{nullptr, span, 1}.is_dense(box);
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

const void* DenseSource::read(AnyConstView view, std::int64_t n, const Box& box) {
  if (from_ == to_ && view.is_dense(box)) return view.begin_of(n, box);
  const auto copy = [](const auto* x, std::int64_t size, auto* y) { std::copy_n(x, size, y); };
  // Readers refuse negative counts; the mask keeps whatever comes inside of the table.
  const auto look_up = [](const auto* table) {
    return [table](const std::int16_t* x, std::int64_t size, auto* y) {
      for (std::int64_t i = 0; i < size; ++i) y[i] = table[static_cast<unsigned>(x[i]) & 0x7fffU];
    };
  };
  if (from_ == DataType::kInt16 && to_ == DataType::kFloat32)
    fill<std::int16_t, float>(view.as<std::int16_t>(), n, box, look_up(log_table().data()));
  else if (from_ == DataType::kInt16)
    fill<std::int16_t, Bfloat16>(view.as<std::int16_t>(), n, box,
                                 look_up(short_logarithms_.data()));
  else if (from_ == DataType::kBfloat16)
    fill<Bfloat16, Bfloat16>(view.as<Bfloat16>(), n, box, copy);
  else if (to_ == DataType::kFloat32)
    fill<float, float>(view.as<float>(), n, box, copy);
  else
    fill<float, Bfloat16>(view.as<float>(), n, box,
                          [](const float* x, std::int64_t size, Bfloat16* y) {
                            for (std::int64_t i = 0; i < size; ++i) y[i] = Bfloat16(x[i]);
                          });
  return buffer_.data();
}

}  // namespace halomesh
