// SPDX-License-Identifier: Apache-2.0
// Normalizes channels with moments that another layer has computed, then scales, shifts and
// rectifies them. Needs no halo.
#pragma once

#include <string>
#include <vector>

#include "src/nn/kernels/channel_sums.hpp"
#include "src/nn/layer.hpp"

namespace halomesh {

/// out(n,c,...) = r(weight(c) * (src(n,c,...) - mean) / sqrt(variance + epsilon) + bias(c)), with
/// the mean and the (biased) variance of sample n and the group that c belongs to; r(x) is x where
/// x > 0 and slope * x elsewhere. Inputs: src, and its Moments, which determine the number of
/// groups. Weights begin with 1, biases with 0. Computed in fp64, rounded once.
///
/// With one group per channel this is instance normalization (Ulyanov, Vedaldi & Lempitsky,
/// arXiv:1607.08022), with fewer groups group normalization (Wu & He, arXiv:1803.08494), with one
/// group layer normalization (Ba, Kiros & Hinton, arXiv:1607.06450), and with moments averaged over
/// samples by SampleAverage batch normalization (Ioffe & Szegedy, arXiv:1502.03167). The gradient
/// of src is the sum of this layer's and that of Moments.
///
/// For batch normalization the layer keeps the parameters running_mean and running_variance, per
/// channel, and normalizes with them, not with its second input, outside of training. They begin
/// with 0 and 1 and move in each step by the share `momentum` towards the mean and the unbiased
/// variance of the samples taken together, averaged over the global batch, as PyTorch's batch norm
/// does.
class Normalize final : public Layer {
 public:
  /// `samples` is the number of samples over which the moments are averaged; 0: they belong to one
  /// sample, and nothing is kept. `slope`: 1 leaves values as they are, 0 makes a rectifier (ReLU)
  /// of the layer. Unless it is `affine`, the layer has neither weight nor bias: they are 1 and 0.
  /// Throws Error unless epsilon is positive, the slope finite and 0 < momentum <= 1. PyTorch's
  /// defaults are an epsilon of 1e-5 and a momentum of 0.1.
  explicit Normalize(float epsilon = 1e-5F, DataType type = DataType::kFloat32,
                     std::int64_t samples = 0, float slope = 1, bool affine = true,
                     float momentum = 0.1F);

  float epsilon() const { return epsilon_; }
  float slope() const { return slope_; }
  float momentum() const { return momentum_; }
  std::int64_t samples() const { return samples_; }

  /// Throws Error unless the second input can be the moments of the first, each of more than one
  /// value.
  Shape dst_shape(std::span<const Shape> src) const override;
  /// Needs the moments of only those groups that the channels of dst belong to.
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override;
  bool splits_over_channels() const override { return true; }
  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override;
  DataType dst_type(std::span<const DataType> src) const override;
  std::string kernel_name() const override;
  std::int64_t forward_flops(std::span<const Shape> src) const override;
  bool backward_reads_src() const override { return true; }
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  bool repeats_forward() const override { return true; }
  bool backward_in_place(std::size_t input) const override { return input == 0; }
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;
  void backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                           AnyConstView diff_dst) override;

 private:
  // Values of sample n by produced channel: mean, 1 / sqrt(variance + epsilon), and weight times
  // that.
  struct Factors {
    double *mean, *inverse, *scale;
  };
  Factors find_factors(AnyConstView moments, std::int64_t n);
  Factors find_running_factors();
  Factors factors();
  void set_factors(std::int64_t channel, double mean, double variance);
  void write_statistics(const Pass& pass, AnyConstView moments);
  template <class Body>
  void for_each_channel(const Body& body) const;
  void sum_diffs(std::span<const AnyConstView> src, AnyConstView diff_dst, const AnyView* diff_src);
  template <class Body>
  void with_rectifier(const Body& body) const;
  void diff_of_moments(AnyConstView moments, AnyView diff_src);

  float epsilon_;
  DataType type_;
  std::int64_t samples_;
  float slope_;
  bool affine_;
  float momentum_;
  LayerContext context_;
  std::vector<ParameterView> parameters_;
  AlignedBuffer<float> fixed_;
  std::int64_t channels_ = 0;  // channels of dst_produced
  ChannelSums sums_;
  AlignedBuffer<double> factors_;
  // Sums per sample and channel over the produced pixels: of diff_dst before the rectifier times
  // the normalized src, and of this diff_dst alone. The gradient of src leaves them for the
  // gradient of the moments, and both for the gradients of the parameters.
  AlignedBuffer<double> diff_sums_;
  bool has_diff_sums_ = false;
};

}  // namespace halomesh
