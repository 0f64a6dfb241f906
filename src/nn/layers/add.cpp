// SPDX-License-Identifier: Apache-2.0
// Sum of inputs: see add.hpp.
#include "src/nn/layers/add.hpp"

#include "src/nn/kernels/copy_box.hpp"
#include "src/nn/kernels/float_types.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {

Shape Add::dst_shape(std::span<const Shape> src) const {
  require(src.size() >= 2, text("a sum of {} inputs", src.size()), "name at least two inputs");
  for (std::size_t i = 1; i < src.size(); ++i)
    require(src[i] == src[0],
            text("a sum of inputs of different shapes: input 0 is {}, input {} is {}", src[0], i,
                 src[i]),
            "give all inputs of a sum the same extents and channels");
  return src[0];
}

DataType Add::dst_type(std::span<const DataType> src) const {
  return require_type(src, type_, "sum");
}

void Add::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst, const Box& chunk) {
  bool rows = has_all_channels(chunk, dst);
  for (const AnyConstView& view : src) rows = rows && has_all_channels(chunk, view);
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const auto to = dst.as<T>();
    const auto first = src[0].as<T>();
    visit_runs(chunk, to.batch, rows, [&](const Run& run) {
      T* const y = run.begin_in(to, chunk);
      const T* sum = run.begin_in(first, chunk);
      for (const AnyConstView& view : src.subspan(1)) {
        const T* const x = run.begin_in(view.as<T>(), chunk);
        for (std::int64_t i = 0; i < run.length; ++i)
          y[i] = T(static_cast<float>(sum[i]) + static_cast<float>(x[i]));
        sum = y;
      }
    });
  });
}

void Add::backward_data(const Pass&, const ForwardValues&, AnyConstView diff_dst, std::size_t input,
                        AnyView diff_src) {
  const Box& box = context().boxes.src_needed[input];
  copy_box(diff_dst, box, diff_src, box);
}

}  // namespace halomesh
