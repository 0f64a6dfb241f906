// Boxes to dense buffers and back: see pack.hpp.
#include "src/nn/pack.hpp"

#include <algorithm>

namespace halomesh {
namespace {

// Calls row(pointer to the row's first element, offset of the row in the dense buffer, length) for
// every (n, d, h) row of the box; rows are contiguous when the box has all channels of the view.
template <class T, class Row>
void for_each_row(TensorView<T> view, const Box& box, Row row) {
  if (box.empty()) return;
  const std::int64_t channels = box.extent(kC), width = box.extent(kW);
  const bool contiguous = channels == view.span.extent(kC);
  const std::int64_t depth = box.extent(kD), height = box.extent(kH);
  const std::int64_t rows = view.batch * depth * height;
#pragma omp parallel for schedule(static) if (rows * width * channels > 65536)
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t n = i / (depth * height), d = i / height % depth, h = i % height;
    T* const first =
        view.data + view.offset(n, box.lo[kC], box.lo[kD] + d, box.lo[kH] + h, box.lo[kW]);
    if (contiguous) {
      row(first, i * width * channels, width * channels);
    } else {
      for (std::int64_t w = 0; w < width; ++w)
        row(first + w * view.span.extent(kC), (i * width + w) * channels, channels);
    }
  }
}

}  // namespace

std::int64_t pack(ConstView src, const Box& box, float* dense) {
  for_each_row(src, box, [dense](const float* from, std::int64_t at, std::int64_t length) {
    std::copy_n(from, length, dense + at);
  });
  return src.batch * box.volume();
}

std::int64_t unpack_copy(const float* dense, const Box& box, View dst) {
  for_each_row(dst, box, [dense](float* to, std::int64_t at, std::int64_t length) {
    std::copy_n(dense + at, length, to);
  });
  return dst.batch * box.volume();
}

std::int64_t unpack_add(const float* dense, const Box& box, View dst) {
  for_each_row(dst, box, [dense](float* to, std::int64_t at, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) to[i] += dense[at + i];
  });
  return dst.batch * box.volume();
}

void fill(View dst, const Box& box, float value) {
  for_each_row(dst, box, [value](float* to, std::int64_t, std::int64_t length) {
    std::fill_n(to, length, value);
  });
}

}  // namespace halomesh
