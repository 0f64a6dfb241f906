// SPDX-License-Identifier: Apache-2.0
// Sum of inputs: see add.hpp.
#include "src/nn/layers/add.hpp"

#include <algorithm>

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

void Add::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst, const Box& chunk) {
  const View to = dst.as<float>();
  bool rows = has_all_channels(chunk, to);
  for (const AnyConstView& view : src) rows = rows && has_all_channels(chunk, view);
  visit_runs(chunk, to.batch, rows, [&](const Run& run) {
    float* y = run.begin_in(to, chunk);
    std::copy_n(run.begin_in(src[0].as<float>(), chunk), run.length, y);
    for (const AnyConstView& view : src.subspan(1)) {
      const float* x = run.begin_in(view.as<float>(), chunk);
      for (std::int64_t i = 0; i < run.length; ++i) y[i] += x[i];
    }
  });
}

void Add::backward_data(const Pass&, const ForwardValues&, AnyConstView diff_dst, std::size_t input,
                        AnyView diff_src) {
  const Box& box = context().boxes.src_needed[input];
  const ConstView from = diff_dst.as<float>();
  const View to = diff_src.as<float>();
  visit_runs(box, to.batch, has_all_channels(box, from, to), [&](const Run& run) {
    std::copy_n(run.begin_in(from, box), run.length, run.begin_in(to, box));
  });
}

}  // namespace halomesh
