// SPDX-License-Identifier: Apache-2.0
// Normalizes each voxel over its channels, then scales and shifts them. Needs no halo, but all
// channels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/nn/kernels/channel_sums.hpp"
#include "src/nn/layers/pointwise.hpp"

namespace halomesh {

struct ChannelNormalizeOptions {
  /// The subtracted number, and the divisor of the rest; moments are those of a voxel's channels.
  enum class Kind : std::uint8_t {
    kLayer,           ///< the mean; sqrt(variance + epsilon)
    kRootMeanSquare,  ///< nothing; sqrt(second moment + epsilon)
    kNorm,            ///< nothing; the larger of the Euclidean norm and epsilon
    kLogSoftmax,      ///< the logarithm of the sum of exponentials; 1
    kSoftmax          ///< likewise; the output is the exponential of the difference
  };
  Kind kind = Kind::kLayer;
  float epsilon = 1e-5F;
  bool weight = true, bias = true;
  DataType type = DataType::kFloat32;
};

/// out(n,c,...) = weight(c) * (src - subtracted) / divisor + bias(c). Weights begin with 1, biases
/// with 0. kLayer is layer normalization (Ba, Kiros & Hinton, arXiv:1607.06450) of channels-last
/// networks, kRootMeanSquare that of Zhang & Sennrich, arXiv:1910.07467, kNorm PyTorch's
/// F.normalize. Softmaxes have neither weight nor bias. Computed in fp64, rounded once.
class ChannelNormalize final : public Pointwise {
 public:
  /// Throws Error unless epsilon is positive, and for a softmax with a weight or bias.
  explicit ChannelNormalize(const ChannelNormalizeOptions& options);

  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override;
  bool splits_over_channels() const override { return false; }
  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override;
  DataType dst_type(std::span<const DataType> src) const override;
  std::string kernel_name() const override;
  std::int64_t forward_flops(std::span<const Shape> src) const override;
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  bool repeats_forward() const override { return true; }
  bool backward_reads_src() const override { return true; }
  bool backward_in_place(std::size_t) const override { return true; }
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;
  void backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                           AnyConstView diff_dst) override;

 private:
  // The subtracted mean and the inverse of the divisor of a voxel; and the share of the sum of
  // gradients times normalized elements that each gradient loses, by way of the divisor.
  struct Factors {
    double mean = 0, inverse = 0, share = 0;
  };
  template <class T>
  Factors factors_of(const T* x) const;
  bool is_softmax() const { return options_.kind >= ChannelNormalizeOptions::Kind::kLogSoftmax; }

  ChannelNormalizeOptions options_;
  std::vector<ParameterView> parameters_;
  std::int64_t channels_ = 0;
  AlignedBuffer<float> fixed_;
  ChannelSums sums_;
};

}  // namespace halomesh
