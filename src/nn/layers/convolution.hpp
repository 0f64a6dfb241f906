// SPDX-License-Identifier: Apache-2.0
// A 3-D convolution on oneDNN, with or without groups and bias. Must not depend on the library's
// API (see onednn.hpp) or on exchanges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/nn/kernels/dense_source.hpp"
#include "src/nn/kernels/gradient_kernels.hpp"
#include "src/nn/kernels/pointwise_products.hpp"
#include "src/nn/kernels/winograd_passes.hpp"
#include "src/nn/layer.hpp"
#include "src/nn/onednn/onednn.hpp"
#include "src/nn/tensor.hpp"
#include "src/nn/window_options.hpp"

namespace halomesh {

struct ConvolutionOptions {
  std::int64_t filters = 1;
  WindowOptions window;
  std::int64_t groups = 1;  ///< each reads its own equal share of the input's channels
  bool bias = true;
  DataType compute = DataType::kFloat32;  ///< kFloat32 or kBfloat16; sums are in fp32
  /// The initial weights; biases begin with zeros, except with kFanInUniform, as in PyTorch.
  InitialValues::Kind initial = InitialValues::Kind::kGlorotUniform;
  /// Writes fp32 sums as they are, instead of rounded to the compute type.
  bool writes_fp32 = false;
  /// kDense uses the library's kernels, with products of the compute type. Otherwise passes of
  /// stride 1 are computed by Winograd's minimal filtering where the shapes fit and a model of the
  /// cost prefers it; kWinograd skips the model.
  GradientKernels kernels = GradientKernels::kAuto;
};

/// dst(n,o,d,h,w) = bias(o) + sum over i,td,th,tw of weight(o,i,td,th,tw) * src(n,i,...) with the
/// src planes of AxisWindow; planes outside the tensor are zero (cross-correlation). With groups, i
/// runs through the channels of the group that o belongs to. Weight order in memory:
/// out,in/groups,kd,kh,kw. Samples are computed one by one.
///
/// The input has the compute type, or is of kFloat32 and rounded to it; a network's input may also
/// be of kInt16, counts that LayerContext::count_scales gives a meaning. Gradients of an input or
/// output of another type are rounded to the compute type, and widened from it.
///
/// Where the CPU computes products of fp32 faster than those of bf16 (fastest_products()), tensors
/// of bf16 are widened and results rounded; weights are then fp32. Gradients of kernels of 1x1x1
/// with stride 1 are matrix products in fp32.
///
/// A part may compute only some output channels, of one group, or whole groups. A chunk is computed
/// in place if its src and dst boxes are contiguous in their spans or Winograd's filtering computes
/// it; otherwise it goes through a dense buffer in scratch.
class Convolution : public Layer {
 public:
  /// Throws Error when there are no filters or the groups do not divide them. The window is checked
  /// by dst_shape().
  explicit Convolution(const ConvolutionOptions& options);

  const ConvolutionOptions& options() const { return options_; }

  /// Throws Error unless there is one input whose channels the groups divide.
  Shape dst_shape(std::span<const Shape> src) const override;
  /// The channels of all groups that dst touches.
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override;
  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override;

  /// True without groups; a cut through a group would be of little use where consumers are not cut
  /// likewise.
  bool splits_over_channels() const override { return options_.groups == 1; }
  DataType dst_type(std::span<const DataType> src) const override;

  /// Throws Error for output channels that are neither of one group nor whole groups, and for the
  /// gradient of counts.
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void load_parameters() override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  bool repeats_forward() const override { return true; }
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;
  void backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                           AnyConstView diff_dst) override;
  std::vector<std::string> implementations() const override;
  std::string kernel_name() const override;
  std::int64_t forward_flops(std::span<const Shape> src) const override;

 private:
  struct PreparedChunk {
    Box dst, src;
    std::size_t kernel = 0;
    std::optional<PointwiseProducts> product{};  // replaces the kernel
  };
  void prepare_winograd();
  void prepare_chunk(const Box& dst, const Box& src);
  ConvolutionGeometry geometry_of(const Box& dst, const Box& src) const;
  void reserve_scratch(const Box& src, const Box& dst);
  void take_scratch();
  const void* read_src(AnyConstView src, std::int64_t n, const Box& box);
  const void* read_diff_dst(AnyConstView diff_dst, std::int64_t n);
  std::optional<DenseSource> conversion_from(DataType type,
                                             std::span<const ChannelScale> scales = {}) const;
  ConvolutionForm form() const;
  DataType type_of_dst() const {
    return options_.writes_fp32 ? DataType::kFloat32 : options_.compute;
  }
  std::int64_t filters_per_group() const { return options_.filters / options_.groups; }

  ConvolutionOptions options_;
  DataType products_type_;  // kFloat32, or the compute type
  LayerContext context_;
  std::vector<ParameterView> parameters_;
  Window window_{};  // window on the whole input
  std::vector<PreparedChunk> chunks_;
  ConvolutionKernels kernels_;
  std::optional<TapGradients> taps_;           // replace their weight gradients
  std::optional<PointwiseProducts> products_;  // replace their backward passes
  std::unique_ptr<WinogradPasses> winograd_;   // null where the shapes do not fit
  // One sample's box where it is not contiguous, or a result in the type of products.
  ScratchBuffer<std::byte> src_scratch_, dst_scratch_;
  std::int64_t src_bytes_ = 0, dst_bytes_ = 0;
  // Conversions where types differ.
  std::optional<DenseSource> converted_src_, converted_diff_dst_;
};

}  // namespace halomesh
