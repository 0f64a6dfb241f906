// SPDX-License-Identifier: Apache-2.0
// Leaky rectifier: see leaky_relu.hpp.
#include "src/nn/layers/leaky_relu.hpp"

#include <cmath>

#include "src/nn/kernels/float_types.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {

LeakyRelu::LeakyRelu(float slope, DataType type) : slope_(slope), type_(type) {
  require(std::isfinite(slope) && slope >= 0.0f, text("leaky ReLU with slope {:g}", slope),
          "use a finite slope of at least 0 (CosmoFlow: 0.3)");
}

DataType LeakyRelu::dst_type(std::span<const DataType> src) const {
  return require_type(src, type_, "leaky ReLU");
}

// Multiplies values by 1 or the slope instead of choosing between two values: compilers vectorize
// this where the slope is a local value.
void LeakyRelu::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst,
                        const Box& chunk) {
  const float slope = slope_;
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const auto from = src[0].as<T>();
    const auto to = dst.as<T>();
    visit_runs(chunk, to.batch, has_all_channels(chunk, from, to), [&](const Run& run) {
      const T* x = run.begin_in(from, chunk);
      T* y = run.begin_in(to, chunk);
      const float below = slope;
      for (std::int64_t i = 0; i < run.length; ++i) {
        const auto value = static_cast<float>(x[i]);
        y[i] = T(value * (value > 0.0f ? 1.0f : below));
      }
    });
  });
}

void LeakyRelu::backward_data(const Pass&, const ForwardValues& values, AnyConstView diff_dst,
                              std::size_t input, AnyView diff_src) {
  const Box& box = context().boxes.src_needed[input];
  const float slope = slope_;
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const auto result = values.dst.as<T>(), from = diff_dst.as<T>();
    const auto to = diff_src.as<T>();
    const bool rows = has_all_channels(box, result, from, to);
    visit_runs(box, to.batch, rows, [&](const Run& run) {
      const T* y = run.begin_in(result, box);
      const T* dy = run.begin_in(from, box);
      T* dx = run.begin_in(to, box);
      const float below = slope;
      for (std::int64_t i = 0; i < run.length; ++i) {
        dx[i] = T(static_cast<float>(dy[i]) * (static_cast<float>(y[i]) > 0.0f ? 1.0f : below));
      }
    });
  });
}

}  // namespace halomesh
