// SPDX-License-Identifier: Apache-2.0
// Means over neighbouring samples of the global batch. Between Moments and Normalize they make
// batch normalization.
#pragma once

#include <cstdint>
#include <string>

#include "src/nn/layers/pointwise.hpp"

namespace halomesh {

/// dst(n) = the mean of src(m) over the group of `samples` consecutive samples of the global batch
/// that includes n; groups begin at multiples of `samples`. All in fp64. Outside of training it
/// copies. Where a pass has fewer samples on each replica, it calls Pass::sum_replicas, and is then
/// collective over the replicas that share the mean.
class SampleAverage final : public Pointwise {
 public:
  /// Throws Error unless `samples` is positive.
  explicit SampleAverage(std::int64_t samples);

  std::int64_t samples_together() const override { return samples_; }
  DataType dst_type(std::span<const DataType> src) const override;
  /// Throws Error unless the samples of a pass divide the samples of a mean, or vice versa.
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;

 private:
  void average(const Pass& pass, AnyConstView src, AnyView dst, const Box& box);

  std::int64_t samples_;
  AlignedBuffer<double> sums_;
};

}  // namespace halomesh
