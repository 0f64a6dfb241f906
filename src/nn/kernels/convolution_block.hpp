// SPDX-License-Identifier: Apache-2.0
// A convolution, max pooling and a leaky ReLU fused into one layer that stores only the pooled
// activation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/nn/kernels/convolution_block_geometry.hpp"
#include "src/nn/kernels/convolution_block_options.hpp"
#include "src/nn/kernels/dense_source.hpp"
#include "src/nn/kernels/isa.hpp"
#include "src/nn/kernels/pooled_activation.hpp"
#include "src/nn/kernels/pooled_convolution.hpp"
#include "src/nn/kernels/pooled_weight_gradient.hpp"
#include "src/nn/kernels/sparse_data_gradient.hpp"
#include "src/nn/kernels/sparse_weight_gradient.hpp"
#include "src/nn/kernels/winograd_convolution.hpp"
#include "src/nn/layer.hpp"
#include "src/nn/onednn/onednn.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {
inline namespace HALOMESH_ISA {

/// dst = leaky_relu(max_pool(convolution(src) + bias)); see Convolution and MaxPooling. Because the
/// leaky ReLU is non-decreasing, it can be applied after the pooling, to fewer elements. Input:
/// kInt16 counts, read as LayerContext::count_scales says; kFloat32; or kBfloat16 when that is the
/// compute type. Convolution planes that no whole pooling window covers are never computed.
///
/// Convolution planes are written to a cache-sized buffer and pooled there at once; one byte per
/// output element records for backward the place of the maximum and whether the slope applies. For
/// an input with few channels, and with Winograd's filtering, only the pooled output is written.
/// Dense backward kernels fill the buffer with the gradients of a few planes at a time; sparse
/// ones, and the weight gradient for an input with few channels, need no buffer.
class ConvolutionBlock final : public BlockLayer, private WholeGradients {
 public:
  /// Throws Error when there are no filters, or for a pooling window, slope or type outside the
  /// bounds above.
  explicit ConvolutionBlock(const ConvolutionBlockOptions& options);

  const ConvolutionBlockOptions& options() const override { return options_; }

  Shape dst_shape(std::span<const Shape> src) const override;
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override;
  DataType dst_type(std::span<const DataType> src) const override;
  bool splits_over_channels() const override { return true; }
  const WholeGradients* whole_gradients() const override {
    return is_reproducible() ? this : nullptr;
  }
  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override;

  /// Throws Error for a context with parameter rows other than those of the produced channels, for
  /// the gradient of an input whose type is not the compute type, for training in bf16 with a
  /// stride other than 1 or a kernel of more than 3 rows, and with GradientKernels::kReproducible
  /// for shapes that its kernels do not fit.
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void load_parameters() override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;
  void backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                           AnyConstView diff_dst) override;
  bool sums_exactly() const override { return is_reproducible(); }
  AnyView backward_state() override;
  std::vector<std::string> implementations() const override;
  std::string kernel_name() const override;
  std::int64_t forward_flops(std::span<const Shape> src) const override;
  std::vector<ThreadShare> thread_shares(std::span<const Shape> src, const Box& dst,
                                         int threads) const override;

 private:
  Spatial gradient_cells(std::span<const Shape> src) const override;
  Box gradient_box(const Box& dst, std::span<const Shape> src) const override;
  Box gradient_needs(const Box& diff_src, std::span<const Shape> src) const override;
  struct Prepared {
    ConvolutionPiece boxes;
    std::size_t kernel = 0;
  };
  struct PreparedChunk {
    Box dst;
    std::vector<Prepared> pieces;
  };
  ConvolutionBlockGeometry geometry_on(const Shape& src) const;
  void check_place() const;
  bool has_few_channels() const;
  bool is_reproducible() const { return options_.kernels == GradientKernels::kReproducible; }
  void check_reproducible() const;
  std::vector<ConvolutionPiece> cell_pieces(std::int64_t planes) const;
  Padding padding_of(const ConvolutionPiece& piece) const;
  // The number of channels that this part produces.
  std::int64_t channels() const { return context_.boxes.dst_produced.extent(kC); }
  void prepare_forward();
  void prepare_pooled_forward();
  bool prefers_winograd() const;
  void prepare_winograd();
  void forward_winograd(const Pass& pass, AnyConstView src, const ConvolutionPiece& piece,
                        std::int64_t n, AnyView dst, Argmax argmax);
  void prepare_data_gradient();
  void prepare_parameter_gradients();
  void prepare_pooled_gradient();
  void prepare_library_gradient();
  PooledWeightGradient::Geometry gradient_geometry() const;
  bool prefers_sparse(const sparse::Work& work) const;
  void prepare_sparse_data_gradient();
  template <class S>
  void run_sparse_data_gradient(const Pass& pass, AnyConstView diff_dst, TensorView<S> diff_src);
  void run_ordered_data_gradient(const Pass& pass, AnyConstView diff_dst, View diff_src);
  // Elements of the compute type, and the place where the first window reads.
  struct SourceBlock {
    const void* data;
    Spatial extents, corner;
  };
  SourceBlock source_block(AnyConstView src, std::int64_t n, const ConvolutionPiece& boxes);
  template <class Gradient>
  void sum_cells(const Pass& pass, AnyConstView src, AnyConstView diff_dst, Gradient& gradient);
  template <class Gradient>
  void sum_pooled_gradient(const Pass& pass, AnyConstView src, AnyConstView diff_dst,
                           Gradient& gradient);
  template <class Gradient>
  void add_pooled_gradient(const Pass& pass, Gradient& gradient, AnyConstView src,
                           AnyConstView diff_dst, std::int64_t n, const ConvolutionPiece& boxes,
                           bool first);
  // The number of planes of so many bytes that the caches of all threads hold, at least one.
  std::int64_t planes_in_caches(std::int64_t plane_bytes) const;
  static Range planes_of(const Box& box) { return {box.lo[kD], box.hi[kD]}; }
  void reserve(std::int64_t conv_bytes);

  ConvolutionBlockOptions options_;
  LayerContext context_;
  std::vector<ParameterView> parameters_;
  ConvolutionBlockGeometry geometry_;
  PooledActivation activation_;
  ConvolutionKernels kernels_;
  std::vector<PreparedChunk> chunks_;
  std::vector<Prepared> data_pieces_, weight_pieces_;
  DenseSource source_;
  std::int64_t planes_bytes_ = 0, diff_src_bytes_ = 0;
  ScratchBuffer<std::byte> planes_;    // planes of the convolution, or of its gradient
  ScratchBuffer<std::byte> diff_src_;  // diff_src of one piece, where it is not contiguous
  AlignedBuffer<std::uint8_t> argmax_storage_;
  // View of argmax_storage_; spans dst_produced and the box that the input's gradient needs.
  Argmax argmax_;
  Spatial cell_{};  // extents of the output's cells where gradients are summed exactly
  BiasSums bias_sums_;
  // Kernels of our own for inputs with few channels.
  std::optional<PooledConvolution> pooled_forward_;
  std::optional<PooledWeightGradient> pooled_gradient_;
  // Kernels used where the model of costs prefers them.
  std::optional<WinogradConvolution> winograd_;
  std::optional<SparseWeightGradient> sparse_weights_;
  std::optional<SparseDataGradient> sparse_data_;
  DenseSource pooled_source_;
};

}  // namespace HALOMESH_ISA
}  // namespace halomesh
