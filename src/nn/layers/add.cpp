// Sum of inputs: see add.hpp.
#include "src/nn/layers/add.hpp"

#include <algorithm>

#include "src/nn/layers/runs.hpp"

namespace halomesh {

Shape Add::dst_shape(std::span<const Shape> src) const {
  require(src.size() >= 2, cat("a sum of ", src.size(), " inputs"), "name at least two inputs");
  for (std::size_t i = 1; i < src.size(); ++i)
    require(src[i] == src[0],
            cat("a sum of inputs of different shapes: input 0 is ", src[0], ", input ", i, " is ",
                src[i]),
            "give all inputs of a sum the same extents and channels");
  return src[0];
}

void Add::forward(const Pass&, std::span<const ConstView> src, View dst, const Box& chunk) {
  bool rows = has_all_channels(chunk, dst);
  for (const ConstView& view : src) rows = rows && has_all_channels(chunk, view);
  visit_runs(chunk, dst.batch, rows, [&](const Run& run) {
    float* y = run.begin_in(dst, chunk);
    std::copy_n(run.begin_in(src[0], chunk), run.length, y);
    for (const ConstView& view : src.subspan(1)) {
      const float* x = run.begin_in(view, chunk);
      for (std::int64_t i = 0; i < run.length; ++i) y[i] += x[i];
    }
  });
}

void Add::backward_data(const Pass&, std::span<const ConstView>, ConstView, ConstView diff_dst,
                        std::size_t input, View diff_src) {
  const Box& box = place().boxes.src_needed[input];
  visit_runs(box, diff_src.batch, has_all_channels(box, diff_dst, diff_src), [&](const Run& run) {
    std::copy_n(run.begin_in(diff_dst, box), run.length, run.begin_in(diff_src, box));
  });
}

}  // namespace halomesh
