// SPDX-License-Identifier: Apache-2.0
// Scaled hyperbolic tangent: see scaled_tanh.hpp.
#include "src/nn/layers/scaled_tanh.hpp"

#include <cmath>

#include "src/nn/runs.hpp"

namespace halomesh {

ScaledTanh::ScaledTanh(float scale) : scale_(scale) {
  require(std::isfinite(scale) && scale != 0.0f, text("scaled tanh with scale {:g}", scale),
          "use a finite scale other than 0 (CosmoFlow: 1.2)");
}

void ScaledTanh::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst,
                         const Box& chunk) {
  const ConstView from = src[0].as<float>();
  const View to = dst.as<float>();
  visit_runs(chunk, to.batch, has_all_channels(chunk, from, to), [&](const Run& run) {
    const float* x = run.begin_in(from, chunk);
    float* y = run.begin_in(to, chunk);
    for (std::int64_t i = 0; i < run.length; ++i) y[i] = scale_ * std::tanh(x[i]);
  });
}

void ScaledTanh::backward_data(const Pass&, const ForwardValues& values, AnyConstView diff_dst,
                               std::size_t input, AnyView diff_src) {
  const Box& box = context().boxes.src_needed[input];
  const float scale = scale_, inverse = 1.0f / scale_;
  const ConstView result = values.dst.as<float>(), from = diff_dst.as<float>();
  const View to = diff_src.as<float>();
  const bool rows = has_all_channels(box, result, from, to);
  visit_runs(box, to.batch, rows, [&](const Run& run) {
    const float* y = run.begin_in(result, box);
    const float* dy = run.begin_in(from, box);
    float* dx = run.begin_in(to, box);
    for (std::int64_t i = 0; i < run.length; ++i) dx[i] = dy[i] * (scale - y[i] * y[i] * inverse);
  });
}

}  // namespace halomesh
