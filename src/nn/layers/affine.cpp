// SPDX-License-Identifier: Apache-2.0
// Scale and shift per channel: see affine.hpp.
#include "src/nn/layers/affine.hpp"

#include <utility>

#include "src/nn/kernels/float_types.hpp"
#include "src/nn/kernels/weight_and_bias.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {

std::vector<ParameterGeometry> Affine::parameters(std::span<const Shape> src) const {
  return weight_and_bias(weight_, bias_, src[0].c);
}

DataType Affine::dst_type(std::span<const DataType> src) const {
  return require_type(src, type_, "affine layer");
}

std::string Affine::kernel_name() const { return fmt::format("affine {}", name_of(type_)); }

std::int64_t Affine::forward_flops(std::span<const Shape> src) const { return 2 * src[0].volume(); }

void Affine::prepare(const LayerContext& context, std::vector<ParameterView> parameters) {
  Pointwise::prepare(context, {});
  const std::int64_t channels = context.boxes.dst_produced.extent(kC);
  parameters_ = with_fixed(std::move(parameters), weight_, bias_, channels, fixed_);
  if (context.training) sums_ = ChannelSums(channels, 2);
}

void Affine::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst,
                     const Box& chunk) {
  const float* const weight = parameters_[0].values.data();
  const float* const bias = parameters_[1].values.data();
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const auto from = src[0].as<T>();
    const auto to = dst.as<T>();
    visit_runs(chunk, to.batch, false, [&](const Run& run) {
      const T* const x = run.begin_in(from, chunk);
      T* const y = run.begin_in(to, chunk);
      for (std::int64_t c = 0; c < run.length; ++c)
        y[c] = T(weight[c] * static_cast<float>(x[c]) + bias[c]);
    });
  });
}

void Affine::backward_data(const Pass&, const ForwardValues&, AnyConstView diff_dst,
                           std::size_t input, AnyView diff_src) {
  const Box& box = context().boxes.src_needed[input];
  const float* const weight = parameters_[0].values.data();
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const auto from = diff_dst.as<T>();
    const auto to = diff_src.as<T>();
    visit_runs(box, to.batch, false, [&](const Run& run) {
      const T* const dy = run.begin_in(from, box);
      T* const dx = run.begin_in(to, box);
      for (std::int64_t c = 0; c < run.length; ++c)
        dx[c] = T(weight[c] * static_cast<float>(dy[c]));
    });
  });
}

void Affine::backward_parameters(const Pass&, std::span<const AnyConstView> src,
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
            const auto diff = static_cast<double>(static_cast<float>(dy[c]));
            sums[c] += static_cast<double>(static_cast<float>(x[c])) * diff;
            sums[channels + c] += diff;
          }
        });
    for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
      parameters_[0].diffs[c] = static_cast<float>(totals[c]);
      parameters_[1].diffs[c] = static_cast<float>(totals[static_cast<std::size_t>(channels) + c]);
    }
  });
}

}  // namespace halomesh
