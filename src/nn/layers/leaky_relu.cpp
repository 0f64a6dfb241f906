// SPDX-License-Identifier: Apache-2.0
// Leaky rectifier: see leaky_relu.hpp.
#include "src/nn/layers/leaky_relu.hpp"

#include <cmath>

#include "src/nn/runs.hpp"

namespace halomesh {

LeakyRelu::LeakyRelu(float slope) : slope_(slope) {
  require(std::isfinite(slope) && slope >= 0.0f, text("leaky ReLU with slope {:g}", slope),
          "use a finite slope of at least 0 (CosmoFlow: 0.3)");
}

void LeakyRelu::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst,
                        const Box& chunk) {
  const ConstView from = src[0].as<float>();
  const View to = dst.as<float>();
  const float slope = slope_;
  visit_runs(chunk, to.batch, has_all_channels(chunk, from, to), [&](const Run& run) {
    const float* x = run.begin_in(from, chunk);
    float* y = run.begin_in(to, chunk);
    for (std::int64_t i = 0; i < run.length; ++i) y[i] = x[i] > 0.0f ? x[i] : slope * x[i];
  });
}

void LeakyRelu::backward_data(const Pass&, const ForwardValues& values, AnyConstView diff_dst,
                              std::size_t input, AnyView diff_src) {
  const Box& box = context().boxes.src_needed[input];
  const float slope = slope_;
  const ConstView result = values.dst.as<float>(), from = diff_dst.as<float>();
  const View to = diff_src.as<float>();
  const bool rows = has_all_channels(box, result, from, to);
  visit_runs(box, to.batch, rows, [&](const Run& run) {
    const float* y = run.begin_in(result, box);
    const float* dy = run.begin_in(from, box);
    float* dx = run.begin_in(to, box);
    for (std::int64_t i = 0; i < run.length; ++i) dx[i] = y[i] > 0.0f ? dy[i] : slope * dy[i];
  });
}

}  // namespace halomesh
