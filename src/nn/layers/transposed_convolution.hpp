// SPDX-License-Identifier: Apache-2.0
// A transposed convolution: the gradient of a convolution with respect to its input, as a layer
// that enlarges extents. Runs on the library's kernels of that gradient.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/nn/kernels/channel_sums.hpp"
#include "src/nn/kernels/dense_source.hpp"
#include "src/nn/kernels/transposed_window.hpp"
#include "src/nn/layer.hpp"
#include "src/nn/onednn/onednn.hpp"
#include "src/nn/window_options.hpp"

namespace halomesh {

struct TransposedConvolutionOptions {
  std::int64_t filters = 1;
  WindowOptions window;      ///< that of the convolution whose gradient this is
  Spatial output_padding{};  ///< see TransposedWindow
  bool bias = true;
  /// Type of products and of the input: kFloat32 or kBfloat16.
  DataType compute = DataType::kFloat32;
  /// The initial weights; biases begin with zeros, except with kFanInUniform, as in PyTorch.
  InitialValues::Kind initial = InitialValues::Kind::kGlorotUniform;
  /// Writes fp32 sums as they are, instead of rounded to the compute type; the output's gradient is
  /// rounded.
  bool writes_fp32 = false;
};

/// dst(n,o,y) = bias(o) + sum over i, t, x with x*stride - pad_before + t*dilation = y of
/// weight(i,o,t) * src(n,i,x), on each axis. Output extent: (extent - 1) * stride - padding + reach
/// + output_padding. Weight order in memory: in,out,kd,kh,kw; fan_in is out*kd*kh*kw as in PyTorch.
class TransposedConvolution final : public Layer {
 public:
  /// Throws Error when there are no filters or the padding of the output is too wide.
  explicit TransposedConvolution(const TransposedConvolutionOptions& options);

  const TransposedConvolutionOptions& options() const { return options_; }

  /// Throws Error unless there is one input, or where nothing would be left of the output.
  Shape dst_shape(std::span<const Shape> src) const override;
  /// May be empty although dst is not, if no window reaches dst.
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override;
  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override;
  /// The slice of the weight has all inputs and, for each, the outputs that the part produces.
  ParameterSlice parameter_slice(std::size_t parameter, const LayerBoxes& boxes,
                                 std::span<const Shape> src) const override;
  bool splits_over_channels() const override { return true; }
  DataType dst_type(std::span<const DataType> src) const override;
  std::vector<std::string> implementations() const override;
  std::string kernel_name() const override;
  std::int64_t forward_flops(std::span<const Shape> src) const override;

  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void load_parameters() override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  bool repeats_forward() const override { return true; }
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;
  void backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                           AnyConstView diff_dst) override;

 private:
  // A box of the output, the part of it that windows reach, and the box of the input that they
  // start from.
  struct Block {
    Box dst, reached, src;
    std::size_t kernel = 0;
  };
  TransposedWindow transposed_window() const { return {options_.window, options_.output_padding}; }
  Block block_of(const Box& dst) const;
  ConvolutionGeometry geometry_of(const Block& block) const;
  void reserve_scratch(const Block& block);
  const void* read_diff_dst(AnyConstView diff_dst, std::int64_t n);
  DataType type_of_dst() const {
    return options_.writes_fp32 ? DataType::kFloat32 : options_.compute;
  }
  void add_bias(AnyView dst, const Box& box) const;

  TransposedConvolutionOptions options_;
  LayerContext context_;
  std::vector<ParameterView> parameters_;
  Window window_{};
  std::vector<Block> chunks_;
  Block produced_;
  ConvolutionKernels kernels_;        // kernels of the convolution: its src is our dst
  std::optional<TapGradients> taps_;  // replace their weight gradients
  ChannelSums bias_sums_;
  ScratchBuffer<std::byte> src_scratch_, dst_scratch_;
  std::int64_t src_bytes_ = 0, dst_bytes_ = 0;
  std::optional<DenseSource> converted_diff_dst_;  // where types differ
};

}  // namespace halomesh
