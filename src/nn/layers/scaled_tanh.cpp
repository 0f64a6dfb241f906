// Scaled hyperbolic tangent: see scaled_tanh.hpp.
#include "src/nn/layers/scaled_tanh.hpp"

#include <cmath>

#include "src/nn/layers/runs.hpp"

namespace halomesh {

ScaledTanh::ScaledTanh(float scale) : scale_(scale) {
  require(std::isfinite(scale) && scale != 0.0f, cat("scaled tanh with scale ", scale),
          "use a finite scale other than 0 (CosmoFlow: 1.2)");
}

void ScaledTanh::forward(const Pass&, std::span<const ConstView> src, View dst, const Box& chunk) {
  const ConstView from = src[0];
  visit_runs(chunk, dst.batch, has_all_channels(chunk, from, dst), [&](const Run& run) {
    const float* x = run.begin_in(from, chunk);
    float* y = run.begin_in(dst, chunk);
    for (std::int64_t i = 0; i < run.length; ++i) y[i] = scale_ * std::tanh(x[i]);
  });
}

void ScaledTanh::backward_data(const Pass&, std::span<const ConstView>, ConstView dst,
                               ConstView diff_dst, std::size_t input, View diff_src) {
  const Box& box = place().boxes.src_needed[input];
  const float scale = scale_, inverse = 1.0f / scale_;
  const bool rows = has_all_channels(box, dst, diff_dst, diff_src);
  visit_runs(box, diff_src.batch, rows, [&](const Run& run) {
    const float* y = run.begin_in(dst, box);
    const float* dy = run.begin_in(diff_dst, box);
    float* dx = run.begin_in(diff_src, box);
    for (std::int64_t i = 0; i < run.length; ++i) dx[i] = dy[i] * (scale - y[i] * y[i] * inverse);
  });
}

}  // namespace halomesh
