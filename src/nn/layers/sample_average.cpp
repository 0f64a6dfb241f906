// SPDX-License-Identifier: Apache-2.0
// Means over samples: see sample_average.hpp.
#include "src/nn/layers/sample_average.hpp"

#include <algorithm>

#include "src/nn/kernels/float_types.hpp"

namespace halomesh {

SampleAverage::SampleAverage(std::int64_t samples) : samples_(samples) {
  require(samples > 0, text("an average over {} samples", samples),
          "average over at least 1 sample");
}

DataType SampleAverage::dst_type(std::span<const DataType> src) const {
  return require_type(src, DataType::kFloat64, "mean over samples");
}

void SampleAverage::prepare(const LayerContext& context, std::vector<ParameterView> parameters) {
  Pointwise::prepare(context, std::move(parameters));
  if (!context.training) return;
  require(samples_ % context.batch == 0 || context.batch % samples_ == 0,
          text("samples of a pass: {}, normalized together: {}", context.batch, samples_),
          "one of the two numbers must be a multiple of the other");
  sums_ = AlignedBuffer<double>(context.boxes.dst_produced.volume());
}

// The mean is a symmetric operator: its gradient is the mean of the gradients.
void SampleAverage::average(const Pass& pass, AnyConstView src, AnyView dst, const Box& box) {
  const auto from = src.as<double>();
  const auto to = dst.as<double>();
  const std::int64_t group = std::min(samples_, to.batch), channels = box.extent(kC);
  const std::span<double> sums = sums_.span().first(static_cast<std::size_t>(channels));
  for (std::int64_t first = 0; first < to.batch; first += group) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::int64_t n = first; n < first + group; ++n) {
      const double* const x = &from.at(n, box.lo[kC], 0, 0, 0);
      for (std::int64_t c = 0; c < channels; ++c) sums[static_cast<std::size_t>(c)] += x[c];
    }
    if (group < samples_) {
      require(pass.sum_replicas != nullptr,
              "samples of other replicas are to be averaged, but "
              "nothing adds them up");
      (*pass.sum_replicas)(sums);
    }
    for (std::int64_t n = first; n < first + group; ++n) {
      double* const y = &to.at(n, box.lo[kC], 0, 0, 0);
      for (std::int64_t c = 0; c < channels; ++c)
        y[c] = sums[static_cast<std::size_t>(c)] / static_cast<double>(samples_);
    }
  }
}

void SampleAverage::forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
                            const Box& chunk) {
  if (pass.training) return average(pass, src[0], dst, chunk);
  const auto from = src[0].as<double>();
  const auto to = dst.as<double>();
  for (std::int64_t n = 0; n < to.batch; ++n)
    std::copy_n(&from.at(n, chunk.lo[kC], 0, 0, 0), chunk.extent(kC),
                &to.at(n, chunk.lo[kC], 0, 0, 0));
}

void SampleAverage::backward_data(const Pass& pass, const ForwardValues&, AnyConstView diff_dst,
                                  std::size_t, AnyView diff_src) {
  average(pass, diff_dst, diff_src, context().boxes.dst_produced);
}

}  // namespace halomesh
