// SPDX-License-Identifier: Apache-2.0
// Leaky rectifier with a trained slope: see prelu.hpp.
#include "src/nn/layers/prelu.hpp"

#include <algorithm>
#include <numeric>

#include "src/nn/kernels/float_types.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {

std::vector<ParameterGeometry> PRelu::parameters(std::span<const Shape> src) const {
  constexpr InitialValues kQuarter{InitialValues::Kind::kConstant, 0.25F};
  return {{"weight", per_channel_ ? src[0].c : 1, {1, 1, 1, 1}, false, 0, 0, kQuarter}};
}

ParameterSlice PRelu::parameter_slice(std::size_t parameter, const LayerBoxes& boxes,
                                      std::span<const Shape> src) const {
  if (per_channel_ || boxes.dst_produced.empty())
    return Pointwise::parameter_slice(parameter, boxes, src);
  return parameters(src)[0].whole();
}

DataType PRelu::dst_type(std::span<const DataType> src) const {
  return require_type(src, type_, "PReLU");
}

void PRelu::prepare(const LayerContext& context, std::vector<ParameterView> parameters) {
  Pointwise::prepare(context, {});
  weight_ = parameters[0];
  slopes_ = AlignedBuffer<float>(context.boxes.dst_produced.extent(kC));
  if (context.training) sums_ = ChannelSums(slopes_.size(), 1);
}

void PRelu::load_parameters() {
  for (std::int64_t c = 0; c < slopes_.size(); ++c)
    slopes_.data()[c] = weight_.values[static_cast<std::size_t>(per_channel_ ? c : 0)];
}

void PRelu::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst, const Box& chunk) {
  const float* const slopes = slopes_.data();
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const auto from = src[0].as<T>();
    const auto to = dst.as<T>();
    visit_runs(chunk, to.batch, false, [&](const Run& run) {
      const T* const x = run.begin_in(from, chunk);
      T* const y = run.begin_in(to, chunk);
      for (std::int64_t c = 0; c < run.length; ++c) {
        const auto value = static_cast<float>(x[c]);
        y[c] = T(value * (value > 0 ? 1 : slopes[c]));
      }
    });
  });
}

void PRelu::backward_data(const Pass&, const ForwardValues& values, AnyConstView diff_dst,
                          std::size_t input, AnyView diff_src) {
  const Box& box = context().boxes.src_needed[input];
  const float* const slopes = slopes_.data();
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const auto read = values.src[0].as<T>(), from = diff_dst.as<T>();
    const auto to = diff_src.as<T>();
    visit_runs(box, to.batch, false, [&](const Run& run) {
      const T* const x = run.begin_in(read, box);
      const T* const dy = run.begin_in(from, box);
      T* const dx = run.begin_in(to, box);
      for (std::int64_t c = 0; c < run.length; ++c)
        dx[c] = T(static_cast<float>(dy[c]) * (static_cast<float>(x[c]) > 0 ? 1 : slopes[c]));
    });
  });
}

void PRelu::backward_parameters(const Pass&, std::span<const AnyConstView> src,
                                AnyConstView diff_dst) {
  const Box& box = context().boxes.dst_produced;
  const std::int64_t channels = box.extent(kC);
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const auto values = src[0].as<T>(), diffs = diff_dst.as<T>();
    const auto totals = sums_.over(
        box, 0, context().batch, [&](auto n, auto d, auto h, auto w, double* const sums) {
          const T* const x = values.data + values.offset(n, box.lo[kC], d, h, w);
          const T* const dy = diffs.data + diffs.offset(n, box.lo[kC], d, h, w);
          for (std::int64_t c = 0; c < channels; ++c) {
            const auto value = static_cast<float>(x[c]);
            sums[c] += static_cast<double>(value > 0 ? 0 : value) *
                       static_cast<double>(static_cast<float>(dy[c]));
          }
        });
    if (per_channel_)
      std::transform(totals.begin(), totals.end(), weight_.diffs.begin(),
                     [](double sum) { return static_cast<float>(sum); });
    else
      weight_.diffs[0] = static_cast<float>(std::accumulate(totals.begin(), totals.end(), 0.0));
  });
}

}  // namespace halomesh
